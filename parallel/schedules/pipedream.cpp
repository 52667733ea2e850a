// PipeDream with weight stashing: no flush, and every microbatch is an update. A microbatch reads
// on each stage the newest weights there are when its forward comes:
//   version m - (stages - 1 - stage)
// Chapter 07; Narayanan et al. 2019, "PipeDream", section 3.3.
#include <algorithm>

#include "autograd/error.h"
#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {
namespace {

// [snippet pipedream]
Plan pipedream(const Layout& layout) {
  std::vector<int> keep;
  for (int stage = 0; stage < layout.stages; ++stage) keep.push_back(layout.stages - stage);
  if (layout.tied && layout.stages > 1)
    keep.push_back(layout.stages);  // as on stage 0, which decides
  Plan plan = empty_plan(layout, pipeline_ranks(layout), layout.width,
                         layout.microbatches * layout.steps, keep);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    int replica = rank / layout.stages, stage = rank % layout.stages;
    int ahead = layout.stages - 1 - stage;
    std::vector<int> micros;
    for (int update = plan.first; update < plan.first + plan.steps; ++update)
      micros.push_back(update * layout.width + replica);
    append_1f1b(plan.rows[rank], stage, micros, ahead,
                [&](int micro) { return std::max(micro / plan.per_step - ahead, 0); });
  }
  place_steps(plan, suitable_placement(layout));
  return plan;
}
// [end snippet]

void check(const Layout& layout) {
  PG_CHECK(layout.zero == 0 || !layout.tied || !layout.clip,
           "pipedream with ZeRO, clipping and tied embeddings hangs: stage 0 would wait for the ",
           "last stage's step, that for the norm, and that for stage 0. Leave out one of them");
}

}  // namespace

extern const Schedule pipedream_schedule{
    .name = "pipedream", .make = pipedream, .updates_per_microbatch = true, .check = check};

}  // namespace paragrad::parallel
