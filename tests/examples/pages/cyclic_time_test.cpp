// Cyclic schedules in time: what each time step of the middle of a plan holds, when forwards and
// backwards take one unit each and messages none. The paper's counts, as equalities.
// Not here: which messages there are (cyclic_plan_test), and how time steps are counted
// (time_steps_test).
#include <numeric>

#include "examples/pages/time_steps.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace plangrad::examples;
using namespace plangrad::parallel;

namespace {

using Ints = std::vector<int>;

/// The update in the middle of a plan, from its first forward to the next one's, by time steps.
struct Middle {
  double makespan = 0;
  Ints alive, sums, others;  // others: activations, their gradients, weights
  std::vector<Ints> computations;

  explicit Middle(const Plan& plan) {
    const Timeline timeline = simulate(verify(plan), {.backward = {1}});
    const TimeSteps steps = time_steps(plan, timeline);
    makespan = timeline.makespan();
    for (int t = steps.first; t < steps.last; ++t) {
      alive.push_back(steps.alive[t]);
      sums.push_back(steps.sums[t]);
      others.push_back(steps.values[t] - steps.sums[t]);
      computations.push_back(steps.computations[t]);
    }
  }
};

Plan plan_of(const std::string& rule, Setting setting, int n, int steps = 4) {
  return make_plan("cyclic-" + rule, {.stages = n, .steps = steps, .setting = setting});
}

/// Visits every plan of a grid.
template <class Visit>
void for_each_plan(std::vector<Setting> chosen, Visit visit) {
  for (const std::string rule : {"v1", "v2"})
    for (Setting setting : chosen)
      for (int n : {2, 3, 4, 5, 8})
        for (int steps : {4, 5, 6}) {
          INFO(rule << ", setting " << static_cast<int>(setting) << ", N = " << n);
          visit(Middle(plan_of(rule, setting, n, steps)), n, steps);
        }
}

int sum(const Ints& values) { return std::accumulate(values.begin(), values.end(), 0); }

/// What 2N time steps have, if these two numbers alternate.
Ints in_turn(int n, int first, int second) {
  Ints result;
  for (int t = 0; t < n; ++t) result.insert(result.end(), {first, second});
  return result;
}

const std::vector<Setting> on_many_ranks{Setting::data, Setting::pipeline, Setting::model,
                                         Setting::zero};

}  // namespace

TEST_CASE("cyclic: each time step computes each stage once, and no time is lost", "[cyclic]") {
  for_each_plan(on_many_ranks, [](const Middle& middle, int n, int steps) {
    CHECK(middle.computations == std::vector<Ints>(2 * n, Ints(n, 1)));
    CHECK(middle.makespan == 2 * n * steps + 2 * (n - 1));  // the last rank begins 2 (N-1) late
  });
  for_each_plan({Setting::one_device}, [](const Middle& middle, int n, int steps) {
    CHECK(middle.computations == std::vector<Ints>(2 * n, Ints(n, 1)));
    CHECK(middle.makespan == n * 2 * n * steps);  // without the others' pauses
  });
}

TEST_CASE("cyclic: as many activations are alive at all times", "[cyclic]") {
  for_each_plan(on_many_ranks, [](const Middle& middle, int n, int) {
    CHECK(middle.alive == Ints(2 * n, n * (n + 1) / 2));
  });
  // One device computes a time step's backwards first, so that fewer are alive at any moment.
  for_each_plan({Setting::one_device}, [](const Middle& middle, int n, int) {
    CHECK(middle.alive == Ints(2 * n, (n * n + 1) / 2));
    CHECK(sum(middle.sums) + sum(middle.others) == 0);
  });
  // In step, ranks fill up together, and are empty together.
  for (int n : {2, 3, 4, 5, 8}) {
    const Middle data(make_plan("data", {.stages = n, .width = n, .steps = 4}));
    CHECK(data.makespan == 2 * n * 4);
    CHECK(*std::max_element(data.alive.begin(), data.alive.end()) == n * n);
    CHECK(*std::min_element(data.alive.begin(), data.alive.end()) == n);
  }
}

TEST_CASE("cyclic data: sums of gradients are sent in every time step", "[cyclic]") {
  for_each_plan({Setting::data}, [](const Middle& middle, int n, int) {
    CHECK(middle.others == Ints(2 * n, 0));
    CHECK(sum(middle.sums) == 2 * n * (n - 1));
  });
}

TEST_CASE("cyclic v2, data: the fewest and the most sums in a time step", "[cyclic]") {
  for (int n = 2; n <= 16; ++n)
    for (int steps : {4, 5, 6}) {
      INFO("N = " << n << ", steps " << steps);
      const Middle middle(plan_of("v2", Setting::data, n, steps));
      const auto [least, most] = std::minmax_element(middle.sums.begin(), middle.sums.end());
      // How far from the mean, N - 1, the number gets.
      const int apart = n == 2 ? 0 : n == 3 || n % 2 == 0 ? 1 : 2;
      CHECK(*least == n - 1 - apart);
      CHECK(*most == n - 1 + apart);
    }
}

TEST_CASE("data: all-reduces are a burst, while stages compute backwards", "[cyclic]") {
  for (int n : {2, 3, 4, 5, 8}) {
    const Middle data(make_plan("data", {.stages = n, .width = n, .steps = 4}));
    // A stage's sums leave as its backwards end; stage 0's, at the beginning of the next forwards.
    Ints expected(2 * n, 2 * (n - 1));
    std::fill_n(expected.begin() + 1, n, 0);
    CHECK(data.sums == expected);
  }
}

TEST_CASE("cyclic v1, data: the same number of sums in each time step, for any N", "[cyclic]") {
  for (int n = 2; n <= 32; ++n) {
    INFO("N = " << n);
    const VerifiedPlan plan = verify(plan_of("v1", Setting::data, n));
    CHECK(plan.facts().capacity == 0);
    CHECK(Middle(plan.plan()).sums == Ints(2 * n, n - 1));
  }
  Layout clipped{.stages = 4, .steps = 4, .first = 3, .clip = true};
  CHECK(Middle(make_plan("cyclic-v1", clipped)).sums == Ints(8, 3));
}

TEST_CASE("cyclic: activations and their gradients are sent in every time step", "[cyclic]") {
  for_each_plan({Setting::pipeline, Setting::model}, [](const Middle& middle, int n, int) {
    if (n % 2 == 1)
      CHECK(middle.others == Ints(2 * n, n - 1));
    else
      CHECK(middle.others == in_turn(n, n - 2, n));
  });
}
