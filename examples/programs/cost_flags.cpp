// Flags of the table of costs. Chapter 06.
#include "examples/programs/cost_flags.h"

#include <algorithm>

#include "examples/programs/field_flags.h"

namespace plangrad::examples {

void CostFlags::add_flags(CLI::App& app) {
  Flags flags(app);
  flags.group("Costs (a list has one value, or one per stage; --slowness has one per rank)");
  for (const parallel::Field<parallel::Costs>* field : parallel::cost_fields())
    add_field(flags, *field, costs, "",
              [this](const auto& each, const std::string& word) { each.take(costs, word); });
}

parallel::Costs CostFlags::of(const parallel::Plan& plan) const {
  auto is_part = [](const parallel::Instruction& x) {
    return x.what == parallel::Value::input_part;
  };
  const bool splits = std::ranges::any_of(
      plan.rows, [&](const parallel::Row& row) { return std::ranges::any_of(row, is_part); });
  PG_CHECK(splits || (costs.input_part.empty() && costs.weight_part.empty()),
           "--input-part and --weight-part are times of split backwards, which this plan does not "
           "have; give --backward, or a schedule like zb-h1");
  return parallel::encoded(costs, plan, "--weight-bytes");
}

}  // namespace plangrad::examples
