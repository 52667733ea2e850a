// 1F1B, PipeDream-Flush: a stage begins its backwards as soon as it can, so it keeps the
// activations of at most (stages - stage) microbatches; the pipeline runs empty before every step.
// Chapter 06; Narayanan et al. 2021 (PipeDream-2BW), section 3.2.
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

// [snippet one_forward_one_backward]
static Plan one_forward_one_backward(const Layout& layout) {
  return flushed_plan(layout, [&](Row& row, int stage, int step, const std::vector<int>& micros) {
    const int ahead = layout.stages - 1 - stage;
    append_1f1b(row, stage, micros, ahead, [&](int) { return step; });
  });
}
// [end snippet]

/// AxoNN's order: a rank runs the microbatch whose message has arrived. Rows are those of 1F1B, but
/// the engine departs from their order (plan/timeline.h). The order that results is recorded
/// as a plan of its own, which can be drawn and run again.
/// source: Singh and Bhatele 2022 (AxoNN), section 4
// [snippet message_driven]
static Plan message_driven(const Layout& layout) {
  Plan plan = one_forward_one_backward(layout);
  plan.in_flight = layout.in_flight > 0 ? layout.in_flight : layout.stages;
  return plan;
}
// [end snippet]

extern const Schedule one_forward_one_backward_schedule{.name = "1f1b",
                                                        .make = one_forward_one_backward};

extern const Schedule message_driven_schedule{.name = "message-driven",
                                              .make = message_driven,
                                              .has_order = false,
                                              .fields = {&in_flight_field}};

}  // namespace plangrad::parallel
