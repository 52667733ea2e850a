// Pipelines that have lost ranks: who takes over what, what it costs, and that they learn as whole
// pipelines do.
// Not here: recycle without losses (schedule_test, engine/schedules_grid_test).
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/parallel/support/todays_schedules.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

/// Three pipelines of four stages: ranks 0 to 3, 4 to 7 and 8 to 11.
Layout three_pipelines(std::vector<int> lost, int steps = 1) {
  return {.stages = 4, .width = 3, .microbatches = 6, .steps = steps, .lost = std::move(lost)};
}

std::set<int> micros_of(const Plan& plan, int rank, int stage) {
  std::set<int> found;
  for (const Instruction& x : plan.rows[rank])
    if (begins_pass(x) && x.stage == stage) found.insert(x.micro);
  return found;
}

/// Seconds of an update in the middle of a run, of equally long forwards and parts of backwards.
double update_time(const std::string& schedule, const Layout& layout) {
  Costs costs{.backward = {1}};
  costs.computation = [](const Instruction& x, int, int) {
    return (begins_pass(x) || (goes_back(x) && makes_input_gradient(x)) ? 1.0 : 0.0) +
           (goes_back(x) && adds_gradient(x) ? 1.0 : 0.0);
  };
  auto makespan = [&](int steps) {
    Layout longer = layout;
    longer.steps = steps;
    return simulate_unverified(make_plan(schedule, longer), costs).makespan();
  };
  return makespan(5) - makespan(4);
}

std::string problem_of(const Layout& layout) {
  return error_of([&] { make_plan("recycle", layout); });
}

}  // namespace

TEST_CASE("recycle: peers of a lost rank take its microbatches in turn", "[schedule]") {
  const Plan plan = make_plan("recycle", three_pipelines({5}));  // stage 1 of the second replica
  REQUIRE(plan.ranks() == 11);
  CHECK(micros_of(plan, 0, 0) == std::set{0, 3, 6, 9, 12, 15});
  CHECK(micros_of(plan, 1, 1) == std::set{0, 1, 3, 6, 7, 9, 12, 13, 15});
  CHECK(micros_of(plan, 8, 1) == std::set{2, 4, 5, 8, 10, 11, 14, 16, 17});  // once rank 9
  CHECK(micros_of(plan, 5, 2) == std::set{1, 4, 7, 10, 13, 16});             // once rank 6
  CHECK(std::ranges::count(plan.groups, std::vector<int>{1, 8}) == 1);       // sum up stage 1
}

TEST_CASE("recycle: memory buys the time that a loss costs", "[schedule]") {
  auto kept = [](Layout layout, int microbatches) {
    layout.in_flight = microbatches;
    return layout;
  };
  const double whole = update_time("1f1b", three_pipelines({}));
  CHECK(whole == 27);
  CHECK(update_time("recycle", three_pipelines({5})) == 30);
  CHECK(update_time("recycle", kept(three_pipelines({5}), 8)) == whole);  // 9 microbatches of 3 s
  for (int most : {4, 6, 8}) {
    const VerifiedPlan plan = verify(make_plan("recycle", kept(three_pipelines({2, 5}), most)));
    CHECK(*std::ranges::max_element(plan.facts().peak_microbatches) <= most);
  }
}

TEST_CASE("recycle: with every choice, a plan with losses has the serial interpreter's bits",
          "[schedule]") {
  for (const Choice& choice : fewer(choices())) {
    INFO(choice.name);
    Layout layout{.stages = 2, .width = 3, .microbatches = 2, .steps = 2, .lost = {1, 4}};
    choice.make(layout);
    Training training(gpt(coded_gpt(layout.tied)), layout.stages);
    training.clip = layout.clip ? 0.3 : 0;
    SmallBatches batches(coded_gpt(layout.tied));
    const auto plans = plans_of("recycle", layout, 2);
    const Outcome serial = run_serially(training, plans, batches);
    const Outcome engine = run_by_engine(training, plans, batches);
    check_same_bits(engine, serial);
    CHECK(engine.losses.size() == 24);
  }
}

TEST_CASE("recycle: losses of ranks change nothing but the order of sums", "[schedule]") {
  auto losses = [](std::vector<int> lost) {
    const Layout layout{
        .stages = 2, .width = 2, .microbatches = 2, .steps = 3, .lost = std::move(lost)};
    Training training(gpt(coded_gpt(false)), layout.stages);
    training.clip = 0;
    training.optimizer = [](const ParameterList& list, const Tensor& weights) {
      return make_sgd(list, weights, 0, 0);
    };
    SmallBatches batches(coded_gpt(false));
    return run_by_engine(training, plans_of("recycle", layout, 1), batches).losses;
  };
  const std::map<int, double> whole = losses({}), left = losses({1});
  REQUIRE(whole.size() == 12);
  REQUIRE(left.size() == 12);
  for (const auto& [micro, loss] : whole) {
    CAPTURE(micro);
    if (micro < 4) CHECK(left.at(micro) == loss);  // on the first weights
    // Four gradients of single precision in another order: 3 roundings of 6e-8, twice.
    CHECK(std::abs(left.at(micro) - loss) <= 1e-6 * loss);
  }
}

TEST_CASE("recycle: refused losses", "[schedule]") {
  CHECK_THAT(problem_of(three_pipelines({12})), Contains("has ranks 0 to 11"));
  CHECK_THAT(problem_of(three_pipelines({3, 3})), Contains("--lost 3 is given twice"));
  CHECK_THAT(problem_of(three_pipelines({1, 5, 9})),
             Contains("no rank that holds stage 1 is left") && Contains("checkpoint"));
  CHECK_THAT(problem_of({.stages = 2, .lost = {0}}), Contains("--data-parallel of at least 2"));
}
