// PipeDream-2BW: the pipeline never runs empty between steps. Microbatches of step t read the
// weights that step t - 1 began with, so two versions are alive, and
//   W(t+1) = W(t) - lr * grad f(W(t-1))
// Chapter 07; Narayanan et al. 2021, section 3.1, equation in section 3.3.
#include <algorithm>

#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {
namespace {

// [snippet 2bw]
Plan pipedream_2bw(const Layout& layout) {
  auto version = [&](int micro) { return std::max(micro / layout.per_step() - 1, 0); };
  return pipeline_plan(layout, {/*keep*/ 2}, [&](Row& row, int replica, int stage) {
    int ahead = std::min(layout.stages - 1 - stage, layout.microbatches);
    append_1f1b(row, stage, layout.micros(replica), ahead, version);
  });
}
// [end snippet]

}  // namespace

extern const Schedule pipedream_2bw_schedule{.name = "2bw", .make = pipedream_2bw};

}  // namespace paragrad::parallel
