// PipeDream-2BW: the pipeline never runs empty between steps. Microbatches of step t read the
// weights that step t - 1 began with, so two versions are alive, and
//   W(t+1) = W(t) - lr * grad f(W(t-1))
// Chapter 07; Narayanan et al. 2021, section 3.1, equation in section 3.3.
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

// [snippet 2bw]
static Plan pipedream_2bw(const Layout& layout) {
  const int stages = layout.stages, in_flight = std::min(stages, layout.microbatches + 1);
  auto version = [&](int micro) { return std::max(micro / layout.per_step() - 1, 0); };
  return pipeline_plan(layout, {/*keep*/ 2}, [&](Row& row, int replica, int stage) {
    const int ahead = (in_flight * (stages - stage) - 1) / stages;  // full: stages - stage - 1
    append_1f1b(row, stage, layout.micros(replica), ahead, version);
  });
}
// [end snippet]

/// Describes what too few microbatches cost: in a long run, m + 1 of them pass D stages in
/// D / (m + 1) rounds, rounded up, of a forward and a backward; a full pipeline takes one round.
static std::string note_on_stalls(const Layout& layout) {
  const int in_flight = layout.microbatches + 1;
  const int rounds = (layout.stages + in_flight - 1) / in_flight;
  if (rounds == 1) return "";
  return text("2bw with ", counted(layout.microbatches, "microbatch"), " on ", layout.stages,
              " stages stalls: a microbatch takes the time of ", rounds,
              " forwards and backwards of a stage instead of one; ", layout.stages - 1,
              " microbatches or more keep it full");
}

extern const Schedule pipedream_2bw_schedule{
    .name = "2bw", .make = pipedream_2bw, .overlaps = true, .note = note_on_stalls};

}  // namespace plangrad::parallel
