// Endless plans with a random fault in their head, body, tail or bars: the verifier rejects each,
// or the fault is harmless at every length. The witness runs unrolled plans on numbers, and knows
// nothing of bars. Not here: plans of one length (mutation_test).

#include "parallel/plan/plan.h"
#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/endless_cases.h"
#include "tests/parallel/support/mutator.h"
#include "tests/parallel/support/scalar_world.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

namespace {

/// The rule that a plan breaks; empty if it breaks none.
std::string broken_rule(const Plan& plan) {
  try {
    verify(plan);
    return "";
  } catch (const PlanError& error) {
    return error.rule;
  }
}

constexpr int lengths[] = {0, 1, 3, 5};

/// The numbers that the plan leaves at each length.
class Witness {
 public:
  explicit Witness(const Plan& good) {
    for (int bodies : lengths)
      if (const auto plan = unrolled_if_any(good, bodies))
        outcomes_[plan->steps] = run_scalar(*plan, 1, -1);
  }

  /// Whether a plan verifies at every length, and leaves the same numbers where it has as many
  /// steps as the good one.
  bool finds_harmless(const Plan& endless) const {
    for (int bodies : lengths) {
      const auto plan = unrolled_if_any(endless, bodies);
      if (!plan) continue;
      if (!broken_rule(*plan).empty()) return false;
      const auto good = outcomes_.find(plan->steps);
      if (good != outcomes_.end() && run_scalar(*plan, 11, -1) != good->second) return false;
    }
    return true;
  }

 private:
  std::map<int, ScalarOutcome> outcomes_;  // by steps
};

/// Makes faults in endless plans.
class EndlessMutator {
 public:
  EndlessMutator(const Plan& plan, unsigned seed)
      : plan_(plan), mutator_(plan, seed), random_(seed) {}

  /// A fault in a cell of any part. Bars stay between the cells that they stood between.
  Plan mutate(Mutation fault) {
    Plan plan = mutator_.mutate(fault);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const Row &before = plan_.rows[rank], &after = plan.rows[rank];
      const int more = static_cast<int>(after.size()) - static_cast<int>(before.size());
      const auto changed = std::ranges::mismatch(before, after).in1 - before.begin();
      for (int* bar : {&plan.bars[rank].first, &plan.bars[rank].second})
        if (*bar > changed) *bar += more;
    }
    return plan;
  }

  /// Bars that stand elsewhere: one bar, both bars of a rank, or a bar of each rank.
  Plan move_bars() {
    Plan plan = plan_;
    const int rank = draw(plan.ranks()), kind = draw(4), by = 1 + draw(4);
    const int step = draw(2) ? by : -by;
    if (kind < 2) move(plan, rank, kind == 0 ? step : 0, kind == 1 ? step : 0);
    if (kind == 2) move(plan, rank, step, step);
    const bool first = draw(2);
    for (int each = 0; kind == 3 && each < plan.ranks(); ++each)
      move(plan, each, first ? step : 0, first ? 0 : step);
    return plan;
  }

 private:
  int draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  static void move(Plan& plan, int rank, int first, int second) {
    auto& bars = plan.bars[rank];
    const int size = static_cast<int>(plan.rows[rank].size());
    bars.first = std::clamp(bars.first + first, 0, size);
    bars.second = std::clamp(bars.second + second, bars.first, size);
  }

  Plan plan_;
  Mutator mutator_;
  std::mt19937 random_;
};

struct EndlessTally {
  int made = 0, accepted = 0;
  int needing_repeat = 0;  ///< rejected by this rule alone, and broken at some length
};

/// Notes what becomes of a plan with a fault, and checks that it is harmless if it is accepted.
void judge(const Plan& plan, const Witness& witness, EndlessTally& tally) {
  ++tally.made;
  const std::string rule = broken_rule(plan);
  INFO(print(plan));
  if (rule.empty()) {
    ++tally.accepted;
    CHECK(witness.finds_harmless(plan));
  }
  // With one body the plan is right, so no rule of ordinary plans could have told.
  if (rule == "repeat" && broken_rule(unrolled(plan, 1)).empty() && !witness.finds_harmless(plan))
    ++tally.needing_repeat;
}

struct EndlessTallies {
  EndlessTally cells, bars;
};

EndlessTallies check_endless_faults(int each, unsigned seed) {
  EndlessTallies tallies;
  for (const EndlessCase& endless : few_endless_cases()) {
    const auto good = make_endless(endless.schedule, endless.layout);
    REQUIRE(good);
    INFO(describe(endless));
    const Witness witness(*good);
    EndlessMutator mutator(*good, ++seed);
    for (std::size_t fault = 0; fault < fault_names.size(); ++fault)
      for (int i = 0; i < each; ++i) {
        INFO(fault_names[fault]);
        const Plan plan = mutator.mutate(static_cast<Mutation>(fault));
        if (plan != *good) judge(plan, witness, tallies.cells);
      }
    for (int i = 0; i < 3 * each; ++i) {
      INFO("moved bars");
      const Plan plan = mutator.move_bars();
      if (plan != *good) judge(plan, witness, tallies.bars);
    }
  }
  return tallies;
}

}  // namespace

TEST_CASE("an endless plan with a random fault is rejected, or harmless at every length",
          "[verify]") {
  const auto [cells, bars] = check_endless_faults(20, 0);
  INFO("cells: " << cells.made << " made, " << cells.accepted << " accepted");
  INFO("bars: " << bars.made << " made, " << bars.accepted << " accepted, " << bars.needing_repeat
                << " need the rule repeat");
  CHECK(cells.made > 1800);
  CHECK(cells.accepted > 50);  // else the witness was hardly asked
  CHECK(cells.made - cells.accepted > 1000);
  CHECK(bars.made > 700);
  CHECK(bars.needing_repeat > 50);
}

TEST_CASE("many more random faults of endless plans; takes minutes", "[.campaign]") {
  const auto [cells, bars] = check_endless_faults(400, 1000);
  WARN("cells: " << cells.made << " made, " << cells.accepted << " accepted; needing repeat "
                 << cells.needing_repeat);
  WARN("bars: " << bars.made << " made, " << bars.accepted << " accepted; needing repeat "
                << bars.needing_repeat);
}
