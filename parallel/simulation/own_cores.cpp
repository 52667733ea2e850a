// Each computation takes what its own record says.
// Chapter 06.
#include "parallel/simulation/own_cores.h"

#include "autograd/error.h"

namespace plangrad::parallel {

Timeline on_own_cores(const VerifiedPlan& verified, const Timeline& measured, Costs costs) {
  const Plan& plan = verified.plan();
  constexpr double unknown = -1;
  std::vector<std::vector<double>> seconds;  // by rank and cell
  for (const Row& row : plan.rows) seconds.emplace_back(row.size(), unknown);
  for (const Record& record : measured.records)
    if (record.lane == Lane::compute) seconds.at(record.rank).at(record.cell) = record.cpu;
  costs.computation = [&](const Instruction& x, int rank, int cell) {
    PG_CHECK(seconds[rank][cell] != unknown, "own cores: rank ", rank, " was not measured at ",
             print(x), "; give a timeline of this plan");
    return seconds[rank][cell];
  };
  return simulate(verified, costs);
}

}  // namespace plangrad::parallel
