// Arrivals: which values messages have brought to one rank, and which instruction takes which.
// Not here: what computations leave on the rank; they run in the row's order, so nobody waits.
// Chapter 06.
#pragma once

#include <unordered_map>
#include <vector>

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// Follows a row of a plan from left to right. Events are numbers that the caller chooses.
class Arrivals {
 public:
  /// tied_versions: of the tied stage, by microbatch of the plan; see lifetimes.h. Must live on.
  Arrivals(const Plan& plan, const std::vector<int>& tied_versions)
      : plan_(plan), tied_versions_(tied_versions) {}

  /// The events that bring the inputs of `x`.
  std::vector<int> inputs(const Instruction& x) const;

  /// Notes that `event` brings what `x` receives, reduces or gathers.
  void add(const Instruction& x, int event);

 private:
  void add_sum(const Name& sum, bool visits, int event);

  const Plan& plan_;
  const std::vector<int>& tied_versions_;
  std::unordered_map<Key, int> last_;                        // who brought a value last
  std::unordered_map<int, std::vector<int>> finished_sums_;  // of all stages, by version
};

}  // namespace paragrad::parallel
