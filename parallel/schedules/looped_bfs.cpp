// Breadth-first pipeline: a rank takes all microbatches through one of its stages, then all through
// its next one. The sum of a stage is complete before the backwards of the stage before it begin,
// so reductions have time.
// Chapter 06; Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism", section 3.
#include <ranges>

#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

static Plan looped_bfs(const Layout& layout) {
  return flushed_plan(layout, [&](Row& row, int rank, int step, const std::vector<int>& micros) {
    const std::vector<int> stages = layout.stages_of(rank);
    for (int stage : stages)
      for (int micro : micros) row.push_back(forward(stage, micro, step));
    for (int stage : stages | std::views::reverse)
      for (int micro : micros) row.push_back(backward(stage, micro, step));
  });
}

extern const Schedule looped_bfs_schedule{.name = "looped-bfs",
                                          .make = looped_bfs,
                                          .chunks = 2,
                                          .placement = Placement::loop,
                                          .fields = {&chunks_field, &placement_field}};

}  // namespace plangrad::parallel
