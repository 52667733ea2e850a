// GPipe with late weights: backwards come in two parts. A stage first computes the gradients of its
// inputs (I), for which the stage before waits. The gradients of its weights (W) come last, when
// nothing waits for the stage any more. Chapter 14.
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

// [snippet late_weights]
Plan late_weights(const Layout& layout) {
  return flushed_plan(layout, [](Row& row, int stage, int step, const std::vector<int>& micros) {
    for (int micro : micros) row.push_back(forward(stage, micro, step));
    for (Value part : {Value::input_part, Value::weight_part})
      for (int micro : micros) row.push_back(backward_part(part, stage, micro, step));
  });
}
// [end snippet]

}  // namespace

// [snippet entry]
extern const Schedule late_weights_schedule{.name = "late-weights", .make = late_weights};
// [end snippet]

}  // namespace plangrad::parallel
