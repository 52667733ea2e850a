// verify: replays a whole plan with symbols instead of tensors. It alone makes VerifiedPlans, the
// only plans that the engine runs. Not here: time (simulate) and numbers. Chapter 06.
//
// The room parallel/verifier proves that a plan is right before anything runs, in milliseconds:
// verify.cpp  the table of rules, and all of them one after the other
// rules.h     what a cell may look like (shape.cpp), which cells meet (pairing.cpp), and how a
//             broken rule shows its cell
// replay.h    one row, run with names for tensors (weights_and_sums.h: its weights and gradients);
//             then all rows, whether they wait for each other (hang.cpp), and whether the body of
//             an endless plan ends as it begins (repeat.cpp)
// Rows are replayed one by one, because the sender's replay checks that what it sends is what its
// name says. The room depends on plans only, and knows no time.
#pragma once

#include <set>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// Facts about a plan that verify finds out without running it.
struct Facts {
  int capacity = 0;  ///< smallest number of messages that each channel must be able to hold so that
                     ///< the plan cannot hang; 0: every send may wait for its recv
  int staleness = 0;  ///< most steps between the version that a gradient was taken at and the one
                      ///< that it is applied to
  int drift = 0;      ///< most versions that a backward's is newer than its forward's
  std::vector<int> live_versions;    ///< per rank: most versions of one stage alive at once
  std::vector<int> versions_in_use;  ///< per rank: most versions of one stage at once that the row
                                     ///< has made, received or read, and reads now or later
  std::vector<std::string> fresh_reads;  ///< per microbatch of a step, a digit per stage: 1 where
                                         ///< every step reads what the step before it has made
  std::vector<int> peak_microbatches;    ///< per rank: most (stage, microbatch) pairs whose
                                         ///< activations are kept at once
  std::vector<int> peak_inputs;  ///< per rank: most such pairs whose activations or, after a drop,
                                 ///< inputs are kept at once
  std::map<std::string, int> messages;  ///< sends by value: "a", "g", "p", "w", "t"; and "reduce",
                                        ///< "norm", "gather", counted once per group
};

/// A plan that breaks a rule.
class PlanError : public Error {
 public:
  PlanError(const std::string& rule, int rank, int index, const std::string& message)
      : Error(message), rule(rule), rank(rank), index(index) {}

  std::string rule;  ///< the rule's name, as in the chapter's table
  int rank, index;   ///< the cell; -1 if no cell is to blame
};

/// A plan that passed every rule, and its facts; only verify() makes one.
class VerifiedPlan {
 public:
  const Plan& plan() const { return plan_; }
  const Facts& facts() const { return facts_; }

 private:
  friend VerifiedPlan verify(Plan plan);
  VerifiedPlan(Plan plan, Facts facts) : plan_(std::move(plan)), facts_(std::move(facts)) {}

  Plan plan_;
  Facts facts_;
};

/// throws: PlanError that names the rule, the cell and what to do
VerifiedPlan verify(Plan plan);

}  // namespace plangrad::parallel
