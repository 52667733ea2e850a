// The verifier against witnesses that do not know it: numbers that a plan leaves behind.
// Good plans train by their rules; one with a random fault is refused, or leaves the same numbers.
#include <array>
#include <random>

#include "parallel/verify.h"
#include "tests/catch.h"
#include "tests/parallel/plan_cases.h"
#include "tests/parallel/scalar_model.h"
#include "tests/parallel/scalar_world.h"

using namespace paragrad::tests;
using namespace paragrad::parallel;

namespace {

enum Fault { swap_neighbours, exchange_sends, microbatch, version, peer, deletion, duplication };
constexpr std::array fault_names{"swap of neighbours", "exchange of sends", "other microbatch",
                                 "other version",      "other peer",        "deletion",
                                 "duplication"};

/// Makes one fault in a plan. The numbers drawn are the same on every machine.
class Mutator {
 public:
  explicit Mutator(Plan plan, unsigned seed) : plan_(std::move(plan)), random_(seed) {}

  Plan mutate(Fault fault) {
    Plan plan = plan_;
    Row& row = plan.rows[draw(plan.ranks())];
    const int size = static_cast<int>(row.size()), at = draw(size);
    const auto cell = row.begin() + at;
    switch (fault) {
      case swap_neighbours:
        std::swap(row[std::min(at, size - 2)], row[std::min(at, size - 2) + 1]);
        break;
      case exchange_sends: exchange(row); break;
      case microbatch:
        renumber(row, &Instruction::micro, plan.first_micro(), plan.last_micro());
        break;
      case version: renumber(row, &Instruction::version, 0, plan.first + plan.steps + 1); break;
      case peer: renumber(row, &Instruction::peer, 0, plan.ranks()); break;
      case deletion: row.erase(cell); break;
      case duplication: row.insert(row.begin() + draw(size + 1), *cell); break;
    }
    return plan;
  }

 private:
  int draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  void exchange(Row& row) {
    std::vector<std::size_t> sends;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].op == Op::send) sends.push_back(i);
    if (sends.size() < 2) return;
    const int n = static_cast<int>(sends.size());
    std::swap(row[sends[draw(n)]], row[sends[draw(n)]]);
  }

  void renumber(Row& row, int Instruction::*field, int begin, int end) {
    std::vector<std::size_t> cells;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].*field >= 0) cells.push_back(i);
    if (cells.empty()) return;
    row[cells[draw(static_cast<int>(cells.size()))]].*field = begin + draw(end - begin);
  }

  Plan plan_;
  std::mt19937 random_;
};

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

}  // namespace

TEST_CASE("good plans train by their rules, in any order of events", "[verify]") {
  for (const PlanCase& good : good_plans()) {
    INFO(good.name);
    const VerifiedPlan verified = verify(good.plan);
    const ScalarOutcome outcome = run_scalar(good.plan, 1, -1);
    const std::vector<double> expected = simulate_rule(good.plan, good.version);
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
  constexpr int each = 100;
  std::array<int, fault_names.size()> made{}, accepted{};
  unsigned seed = 0;
  for (const PlanCase& good : good_plans()) {
    const ScalarOutcome outcome = run_scalar(good.plan, 1, -1);
    Mutator mutator(good.plan, ++seed);
    for (std::size_t fault = 0; fault < fault_names.size(); ++fault)
      for (int i = 0; i < each; ++i) {
        const Plan plan = mutator.mutate(static_cast<Fault>(fault));
        if (plan == good.plan) continue;
        ++made[fault];
        if (is_refused(plan)) continue;
        ++accepted[fault];
        INFO(good.name << ", " << fault_names[fault] << "\n" << print(plan));
        CHECK(leaves(plan, outcome));
      }
  }
  for (std::size_t fault = 0; fault < fault_names.size(); ++fault) {
    INFO(fault_names[fault] << ": " << made[fault] << " made, " << accepted[fault] << " accepted");
    CHECK(made[fault] > 300);
    CHECK(made[fault] - accepted[fault] > 300);
  }
  CHECK(accepted[swap_neighbours] > 100);  // else the witness was hardly asked
  CHECK(accepted[duplication] == 0);
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
