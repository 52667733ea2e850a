// The verifier against witnesses that do not know it: numbers that a plan leaves behind, and the
// engine, which has to run what was accepted.
// Good plans train by their rules; one with a random fault is refused, or leaves the same numbers.

#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/mutator.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/scalar_model.h"
#include "tests/parallel/support/scalar_world.h"
#include "tests/parallel/support/small_run.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

namespace {

bool is_refused(const Plan& plan) {
  try {
    verify(plan);
    return false;
  } catch (const PlanError&) {
    return true;
  }
}

/// Whether an accepted plan leaves these numbers, whatever the order of events.
bool leaves(const Plan& plan, const ScalarOutcome& outcome) {
  const int capacity = verify(plan).facts().capacity;
  return run_scalar(plan, 11, -1) == outcome && run_scalar(plan, 12, -1) == outcome &&
         run_scalar(plan, 13, capacity) == outcome;
}

/// Runs accepted plans by the engine and by the serial interpreter, on a small model.
class EngineWitness {
 public:
  explicit EngineWitness(const Plan& good)
      : training_(gpt(small_gpt(!good.tied.empty())), good.stages) {
    training_.clip = good.clip ? 0.3 : 0;
    try {
      check_fit(good, training_, good.ranks());
      good_ = run_serially(training_, {verify(good)}, batches_);
    } catch (const Error&) {  // there are plans that only the simulator runs
    }
  }

  bool can_run() const { return good_.has_value(); }

  /// Whether both leave the same bits, and those that the good plan leaves.
  bool agrees(const Plan& plan) {
    const std::vector<VerifiedPlan> plans{verify(plan)};
    const Outcome serial = run_serially(training_, plans, batches_);
    const Outcome engine = run_by_engine(training_, plans, batches_);
    return same(engine, serial) && same(serial, *good_);
  }

 private:
  static bool same(const Outcome& a, const Outcome& b) {
    return a.weights == b.weights && a.losses == b.losses;
  }

  Training training_;
  SmallBatches batches_{small_gpt(), 1};
  std::optional<Outcome> good_;
};

struct Tally {
  int made = 0, accepted = 0, run = 0;
};
using Tallies = std::array<Tally, fault_names.size()>;

/// Makes `each` faults of every kind in every good plan. At most `runs` accepted ones of each good
/// plan and kind run on the engine.
Tallies check_faults(int each, int runs, unsigned seed) {
  Tallies tallies;
  for (const PlanCase& good : good_plans()) {
    const ScalarOutcome outcome = run_scalar(good.plan, 1, -1);
    EngineWitness engine(good.plan);
    Mutator mutator(good.plan, ++seed);
    for (std::size_t fault = 0; fault < fault_names.size(); ++fault)
      for (int i = 0, left = engine.can_run() ? runs : 0; i < each; ++i) {
        const Plan plan = mutator.mutate(static_cast<Mutation>(fault));
        if (plan == good.plan) continue;
        ++tallies[fault].made;
        if (is_refused(plan)) continue;
        ++tallies[fault].accepted;
        INFO(good.name << ", " << fault_names[fault] << "\n" << print(plan));
        CHECK(leaves(plan, outcome));
        if (left-- <= 0) continue;
        ++tallies[fault].run;
        CHECK(engine.agrees(plan));
      }
  }
  return tallies;
}

}  // namespace

TEST_CASE("good plans train by their rules, in any order of events", "[verify]") {
  for (const PlanCase& good : good_plans()) {
    INFO(good.name);
    const VerifiedPlan verified = verify(good.plan);
    const ScalarOutcome outcome = run_scalar(good.plan, 1, -1);
    const std::vector<double> expected = simulate_rule(good.plan, good.version, good.of_backward);
    REQUIRE(!outcome.weights.empty());
    for (const auto& [name, weight] : outcome.weights)
      CHECK(weight == Approx(expected[name.second]).epsilon(1e-12));
    for (unsigned seed = 2; seed < 6; ++seed) {
      CHECK(run_scalar(good.plan, seed, -1) == outcome);
      CHECK(run_scalar(good.plan, seed, verified.facts().capacity) == outcome);
    }
  }
}

TEST_CASE("a plan with a random fault is refused, or the fault is harmless", "[verify]") {
  const Tallies tallies = check_faults(100, sanitized ? 2 : 10, 0);
  int run = 0;
  for (std::size_t fault = 0; fault < fault_names.size(); ++fault) {
    const Tally& tally = tallies[fault];
    INFO(fault_names[fault] << ": " << tally.made << " made, " << tally.accepted << " accepted");
    CHECK(tally.made > 300);
    CHECK(tally.made - tally.accepted > 300);
    run += tally.run;
  }
  auto accepted = [&](Mutation fault) { return tallies[static_cast<std::size_t>(fault)].accepted; };
  CHECK(accepted(Mutation::swap_neighbours) > 100);  // else the witnesses were hardly asked
  CHECK(accepted(Mutation::detour) > 10);
  CHECK(accepted(Mutation::duplication) == 0);
  CHECK(run > (sanitized ? 20 : 100));
}

TEST_CASE("many more random faults; takes minutes", "[.campaign]") {
  const Tallies tallies = check_faults(1500, 500, 1000);
  for (std::size_t fault = 0; fault < fault_names.size(); ++fault)
    WARN(fault_names[fault] << ": " << tallies[fault].made << " made, " << tallies[fault].accepted
                            << " accepted, of these " << tallies[fault].run << " on the engine");
}

TEST_CASE("a value that was used is gone, whoever runs the plan", "[verify]") {
  const Plan plan = parse(
      "stages 2 per_step 1 steps 1 keep 1\n"
      "0F0v0 0a0>1 0a0<1 0a0>1 0g0<1 0B0v0 0Sv1\n"
      "0a0<0 1F0v0 0a0>0 0a0<0 1B0v0 0g0>0 1Sv1\n");
  CHECK(is_refused(plan));
  CHECK_THROWS_WITH(run_scalar(plan, 1, -1), Contains("0a0>0: a value is missing"));
}

TEST_CASE("no instruction of a good plan can be left out", "[verify]") {
  int cells = 0;
  for (const PlanCase& good : good_plans()) {
    const ScalarOutcome outcome = run_scalar(good.plan, 1, -1);
    for (int rank = 0; rank < good.plan.ranks(); ++rank)
      for (std::size_t i = 0; i < good.plan.rows[rank].size(); ++i) {
        Plan plan = good.plan;
        const Instruction x = plan.rows[rank][i];
        plan.rows[rank].erase(plan.rows[rank].begin() + static_cast<std::ptrdiff_t>(i));
        ++cells;
        INFO(good.name << mark(good.plan, rank, static_cast<int>(i)));
        // But that a home drops its old version says only what happens anyway.
        const bool is_home_drop = x.op == Op::drop && x.what == Value::weights &&
                                  !plan.home.empty() && plan.home[x.stage] == rank;
        CHECK((is_refused(plan) || (is_home_drop && leaves(plan, outcome))));
      }
  }
  CHECK(cells > 2000);
}
