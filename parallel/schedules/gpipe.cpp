// GPipe: in every step all forwards, then all backwards; one version of the weights.
// Chapter 06; Huang et al. 2019, "GPipe".
#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {
namespace {

// [snippet gpipe]
Plan gpipe(const Layout& layout) {
  Plan plan = empty_plan(layout, pipeline_ranks(layout), layout.width * layout.microbatches,
                         layout.steps, {/*keep*/ 1});
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    int replica = rank / layout.stages, stage = rank % layout.stages;
    for (int step = layout.first; step < layout.first + layout.steps; ++step) {
      for (int micro : layout.micros(replica, step))
        plan.rows[rank].push_back(forward(stage, micro, step));
      for (int micro : layout.micros(replica, step))
        plan.rows[rank].push_back(backward(stage, micro, step));
    }
  }
  place_steps(plan, suitable_placement(layout));
  return plan;
}
// [end snippet]

}  // namespace

extern const Schedule gpipe_schedule{.name = "gpipe", .make = gpipe};

}  // namespace paragrad::parallel
