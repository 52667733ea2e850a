// Chapters 06 to 09.
#include "examples/programs/plan_figure.h"

#include <fmt/format.h>

#include "nn/checkpoint/file.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::examples {

using namespace parallel;

const std::vector<std::string>& lane_names() {
  static const std::vector<std::string> names = {"versions", "holdings"};
  return names;
}

void add_lanes(FigureOptions& figure, const std::string& lanes, const Plan& plan,
               const Timeline& timeline) {
  if (plan.sharded > 0) {
    constexpr const char* state[] = {"the optimizer's state", "gradients and the optimizer's state",
                                     "weights, gradients and the optimizer's state"};
    figure.note = fmt::format("ZeRO {}: a rank keeps 1/{} of {}", plan.sharded,
                              holders(plan).front().size(), state[plan.sharded - 1]);
  }
  if (lanes.empty()) return;
  figure.held = holdings(plan, timeline);
  const Hold last = lanes == "versions" ? Hold::copy : Hold::sum;  // not what passes to others
  std::erase_if(figure.held, [&](const Holding& h) { return h.hold > last; });
}

bool draw_fault(const std::string& file, const Plan& plan, const PlanError& error,
                const Costs& costs, const FigureOptions& figure) {
  if (error.rank < 0 || error.rule == "shape") return false;
  const int end = static_cast<int>(plan.rows[error.rank].size());
  nn::write_file(file, parallel::draw_fault(plan, error.rank, error.index < 0 ? end : error.index,
                                            error.what(), costs, figure));
  return true;
}

}  // namespace plangrad::examples
