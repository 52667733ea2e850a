// PipeDream with weight stashing: no flush, and every microbatch makes an update. On each stage, a
// microbatch reads the newest weights that exist when its forward runs:
//   version m - (stages - 1 - stage)
// Chapter 07; Narayanan et al. 2019, "PipeDream", section 3.3.
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

// [snippet pipedream]
static Plan pipedream(const Layout& asked) {
  Layout layout = asked;  // every microbatch of a replica is a step
  layout.steps *= layout.microbatches;
  layout.first *= layout.microbatches;
  layout.microbatches = 1;
  std::vector<int> keep;
  for (int stage = 0; stage < layout.stages; ++stage) keep.push_back(layout.stages - stage);
  if (layout.tied && layout.stages > 1)
    keep.push_back(layout.stages);  // as for stage 0, which names its version
  return pipeline_plan(layout, keep, [&](Row& row, int replica, int stage) {
    const int ahead = layout.stages - 1 - stage;
    append_1f1b(row, stage, layout.micros(replica), ahead,
                [&](int micro) { return std::max(micro / layout.per_step() - ahead, 0); });
  });
}
// [end snippet]

static void check(const Layout& layout) {
  PG_CHECK(layout.zero == 0 || !layout.tied || !layout.clip,
           "pipedream with ZeRO, clipping and tied embeddings hangs: stage 0 would wait for the ",
           "last stage's step, that for the norm, and that for stage 0. Leave out one of them");
}

extern const Schedule pipedream_schedule{.name = "pipedream",
                                         .make = pipedream,
                                         .updates_per_microbatch = true,
                                         .overlaps = true,
                                         .check = check};

}  // namespace plangrad::parallel
