// Homes: weights that travel. A stage's home keeps its newest version and makes its steps; whoever
// uses a version passes it on as it begins its last use, and lets go of it afterwards. The home has
// its own. Not here: the sums that come home (lower_sums.cpp).
// Chapter 08; Fournier and Oyallon 2024, section 3.2 (ZeRO-DP).
#pragma once

#include "parallel/lowering/order.h"
#include "parallel/lowering/rows.h"

namespace paragrad::parallel {

class Homes {
 public:
  using Version = std::pair<int, int>;  // stage, version
  using Users = std::map<Version, std::deque<Order::Run>>;

  /// Nothing happens in plans without homes. What the references name must outlive it.
  Homes(const Plan& computations, Users users, Rows& rows);

  /// The versions that are there before the plan begins.
  void begin();

  /// Ranks use a version in turn, its home, too: so that it does not come back to a rank that has
  /// not let go of it.
  bool can_read(int rank, const Instruction& x) const;

  void hand_over(int rank, const Instruction& x);  ///< as x is about to begin
  void begun(int rank);                            ///< the rank's next computation
  void let_go(int rank, const Instruction& x);     ///< as x has ended

  void step(int stage, int version);

 private:
  void appear(Version version);
  void hand_to_first(int user);
  void pass(Version version, int from, int to);
  bool ends_run(const Instruction& x) const;

  const Plan& plan_;
  Users users_;
  Rows& rows_;
  std::vector<std::ptrdiff_t> begun_;      // computations of each rank
  std::set<std::pair<Version, int>> has_;  // a version and a rank that has it
  std::set<Version> waiting_;              // at home; nobody has been given them yet
};

}  // namespace paragrad::parallel
