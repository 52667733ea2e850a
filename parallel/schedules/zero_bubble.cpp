// ZB-H1 and ZB-H2: 1F1B whose backwards come in two parts. The stage before waits for the gradient
// of a stage's input (I), and nothing waits for the gradients of its weights (W). So W runs later,
// in time in which 1F1B is idle.
// Chapter 06; Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

// [snippet zero_bubble]
/// Appends the order of 1F1B with W `later` microbatches behind I, so that activations of
/// ahead + 1 + later microbatches are kept.
static void append_zero_bubble(Row& row, int stage, const std::vector<int>& micros, int ahead,
                               int later, int version) {
  Row whole;
  append_1f1b(whole, stage, micros, ahead, [&](int) { return version; });
  const int count = static_cast<int>(micros.size());
  int inputs = 0, weights = 0;  // parts that are done
  auto append_weights = [&](int until) {
    for (; weights < until; ++weights)
      row.push_back(backward_part(Value::weight_part, stage, micros[weights], version));
  };
  for (const Instruction& x : whole) {
    if (goes_back(x)) ++inputs;
    row.push_back(goes_back(x) ? backward_part(Value::input_part, stage, x.micro, version) : x);
    append_weights(inputs - later);
  }
  append_weights(count);
}

/// With times = 1 (ZB-H1), every stage keeps as many microbatches as 1F1B's first one. With
/// times = 2 (ZB-H2), twice as many forwards run ahead, and each W comes twice as late.
static Plan zero_bubble(const Layout& layout, int times) {
  return flushed_plan(layout, [&](Row& row, int stage, int step, const std::vector<int>& micros) {
    append_zero_bubble(row, stage, micros, /*ahead*/ times * (layout.stages - 1 - stage),
                       /*later*/ times * stage, step);
  });
}
// [end snippet]

extern const Schedule zb_h1_schedule{
    .name = "zb-h1", .make = [](const Layout& layout) { return zero_bubble(layout, 1); }};

extern const Schedule zb_h2_schedule{
    .name = "zb-h2",
    .make = [](const Layout& layout) { return zero_bubble(layout, 2); },
    .overlaps = true,
    .note = note_on_norms};

}  // namespace plangrad::parallel
