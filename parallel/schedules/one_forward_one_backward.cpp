// 1F1B, PipeDream-Flush: a stage begins its backwards as soon as it can, so it keeps the
// activations of at most (stages - stage) microbatches; the pipeline runs empty before every step.
// Chapter 06; Narayanan et al. 2021 (PipeDream-2BW), section 3.2.
#include <algorithm>

#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {

// [snippet 1f1b]
Plan one_forward_one_backward(const Layout& layout) {
  Plan plan = empty_plan(layout, layout.width * layout.stages, layout.width * layout.microbatches,
                         layout.steps, {/*keep*/ 1});
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    int replica = rank / layout.stages, stage = rank % layout.stages;
    int ahead = std::min(layout.stages - 1 - stage, layout.microbatches);
    for (int step = layout.first; step < layout.first + layout.steps; ++step)
      append_1f1b(plan.rows[rank], stage, layout.micros(replica, step), ahead,
                  [&](int) { return step; });
  }
  place_steps(plan, suitable_placement(layout));
  return plan;
}
// [end snippet]

}  // namespace paragrad::parallel
