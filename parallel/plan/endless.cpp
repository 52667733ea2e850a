// Versions and sums are counted on by the period, microbatches by those that it makes steps of.
// Chapter 07.
#include "parallel/plan/endless.h"

#include "autograd/error.h"

namespace paragrad::parallel {

Part part_of(const Plan& plan, int rank, int cell) {
  if (!plan.is_endless()) return Part::tail;
  const Bars& bars = plan.bars[rank];
  return cell < bars.first ? Part::head : cell < bars.second ? Part::body : Part::tail;
}

std::pair<int, int> cells_of(const Plan& plan, int rank, Part part) {
  const int end = static_cast<int>(plan.rows[rank].size());
  if (!plan.is_endless()) return {part == Part::tail ? 0 : end, end};
  const Bars& bars = plan.bars[rank];
  if (part == Part::head) return {0, bars.first};
  return part == Part::body ? std::pair{bars.first, bars.second} : std::pair{bars.second, end};
}

Instruction shifted(const Plan& plan, Instruction x, int repetitions) {
  if (x.version >= 0) x.version += repetitions * plan.period;
  if (x.micro >= 0) x.micro += repetitions * plan.period * plan.per_step;
  return x;
}

Name shifted(const Plan& plan, Name name, int repetitions) {
  const bool by_version =
      name.what == Value::weights || name.what == Value::open_sum || name.what == Value::norm;
  name.number += repetitions * plan.period * (by_version ? 1 : plan.per_step);
  return name;
}

Plan unrolled(const Plan& plan, int bodies) {
  PG_CHECK(plan.is_endless(), "a plan without a period has one length");
  Plan out = plan;
  out.period = 0;
  out.bars.clear();
  out.steps += (bodies - 1) * plan.period;
  PG_CHECK(bodies >= 0 && out.steps > 0, "an endless plan of ", plan.steps, " steps and period ",
           plan.period, " has no length of ", bodies, " bodies");
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Row& row = plan.rows[rank];
    const auto first = row.begin() + plan.bars[rank].first;
    const auto second = row.begin() + plan.bars[rank].second;
    Row& longer = out.rows[rank];
    longer.assign(row.begin(), first);
    for (int body = 0; body < bodies; ++body)
      for (auto x = first; x != second; ++x) longer.push_back(shifted(plan, *x, body));
    for (auto x = second; x != row.end(); ++x) longer.push_back(shifted(plan, *x, bodies - 1));
  }
  return out;
}

}  // namespace paragrad::parallel
