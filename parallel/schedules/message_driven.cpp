// Message-driven order, AxoNN's: a rank runs whichever microbatch's message has come. Its rows are
// those of 1F1B, but the engine departs from their order (driven_order.h), and the order that came
// about is a plan of its own, which can be drawn and run again.
// Chapter 06; Singh and Bhatele 2022 (AxoNN), section 4.
#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {
namespace {

// [snippet message_driven]
Plan message_driven(const Layout& layout) {
  Plan plan = alternating_plan(layout);
  plan.in_flight = layout.in_flight > 0 ? layout.in_flight : layout.stages;
  return plan;
}
// [end snippet]

}  // namespace

extern const Schedule message_driven_schedule{
    .name = "message-driven", .make = message_driven, .has_order = false};

}  // namespace paragrad::parallel
