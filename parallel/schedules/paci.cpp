// Paci: no flush and one version of the weights. A stage runs D - 1 - stage forwards ahead of its
// backwards, and updates in place as soon as it has a step's gradients. So a backward can read
// newer weights than its forward, by at most ceil((D - 1) / m) updates:
//   W(t+1) = W(t) - lr * grad f, forward at the versions that were there, backward at W(t)
// With m = 1 this is PipeDream without weight stashing.
// Chapter 07; arXiv 2606.07881.
#include "parallel/schedules/plan_spec.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

/// Microbatches that stage 0 holds at once; all that a full pipeline needs, or what a lower bound
/// of the drift allows.
int held_in_flight(const Layout& layout) {
  if (layout.drift == 0) return layout.stages;
  return static_cast<int>(
      std::min<std::int64_t>(layout.stages, std::int64_t{layout.drift} * layout.microbatches + 1));
}

int ceil_of(int a, int b) { return (a + b - 1) / b; }

// [snippet paci]
Plan paci(const Layout& asked) {
  Layout layout = asked;
  const int stages = layout.stages, m = layout.microbatches, in_flight = held_in_flight(layout);
  layout.drift = ceil_of(in_flight - 1, m);
  return pipeline_plan(layout, {/*keep*/ 1}, [&](Row& row, int replica, int stage) {
    const int ahead = (in_flight * (stages - stage) - 1) / stages;  // full: stages - stage - 1
    auto of_backward = [&](int micro) { return micro / layout.per_step(); };
    auto of_forward = [&](int micro) {
      const int index = of_backward(micro) * m + micro % m;  // among its replica's
      return std::max((index - ahead) / m, layout.first);
    };
    append_1f1b(row, stage, layout.micros(replica), ahead, of_forward, of_backward);
  });
}
// [end snippet]

/// Describes what a low bound of the drift costs: D stages take D / in_flight rounds, rounded up;
/// and that recomputation, which changes no number elsewhere, does so here.
std::string note_on_drift(const Layout& layout) {
  std::string note;
  const int full = ceil_of(layout.stages - 1, layout.microbatches);
  const int rounds = ceil_of(layout.stages, held_in_flight(layout));
  if (rounds > 1)
    note =
        text("paci with --drift ", layout.drift, " on ", layout.stages,
             " stages stalls: a microbatch takes the time of ", rounds,
             " forwards and backwards of a stage instead of one; --drift ", full, " keeps it full");
  if (layout.drift > full)
    note = text("paci with --drift ", layout.drift, " on ", counted(layout.stages, "stage"),
                " uses a drift of ", full, ", which keeps it full");
  if (layout.recompute && layout.stages > 1)
    note += text(note.empty() ? "" : ". ", "With --recompute, paci computes a forward ",
                 "again on the weights of its backward, so the numbers change");
  return note;
}

constexpr SpecField drift_field = in_layout<&Layout::drift>(
    "drift",
    "how many updates a backward's weights may be newer than its forward's (default: as "
    "many as keep the pipeline full)",
    {.least = 1, .thing = "drift"});

}  // namespace

extern const Schedule paci_schedule{.name = "paci",
                                    .make = paci,
                                    .overlaps = true,
                                    .drifts = true,
                                    .fields = {&drift_field},
                                    .note = note_on_drift};

}  // namespace plangrad::parallel
