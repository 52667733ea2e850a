// Data parallelism: every rank holds all stages and takes its share of the microbatches. Stages are
// the buckets: a stage's sum is reduced while earlier stages still compute their gradients.
// Chapter 05; Li et al. 2020, "PyTorch Distributed", section 3.2.
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

// [snippet data]
static Plan data_parallel(const Layout& layout) {
  Plan plan = empty_plan(layout, layout.width, {/*keep*/ 1});
  for (int rank = 0; rank < layout.width; ++rank)
    for (int step = layout.first; step < layout.first + layout.steps; ++step)
      for (int micro : layout.micros(rank, step)) {
        for (int stage = 0; stage < layout.stages; ++stage)
          plan.rows[rank].push_back(forward(stage, micro, step));
        for (int stage = layout.stages - 1; stage >= 0; --stage)
          plan.rows[rank].push_back(backward(stage, micro, step));
      }
  place_steps(plan);
  return plan;
}
// [end snippet]

extern const Schedule data_parallel_schedule{.name = "data",
                                             .make = data_parallel,
                                             .chunks = 0,  // all stages
                                             .highest_zero = 3};

}  // namespace plangrad::parallel
