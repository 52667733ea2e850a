// Time steps: plans of the folder plans/ against the counts of the paper, and numbers by hand.
#include "examples/pages/time_steps.h"

#include <numeric>

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"

using namespace plangrad::examples;
using namespace plangrad::parallel;
using plangrad::tests::plan_text;

namespace {

using Ints = std::vector<int>;
using Bytes = std::vector<std::int64_t>;

Plan golden(const std::string& name) { return parse(plan_text(name)); }

Timeline simulated(const Plan& plan, const Costs& costs = {.backward = {1}}) {
  return simulate(verify(plan), costs);
}
TimeSteps counted(const Plan& plan, const Costs& costs = {.backward = {1}}) {
  return time_steps(plan, simulated(plan, costs));
}

Ints part(const Ints& values, int first, int last) {
  return {values.begin() + first, values.begin() + last};
}

}  // namespace

TEST_CASE("activations alive: GPipe, by hand", "[time_steps]") {
  // rank 0  0F0 0F1 ... ... 0B0 0B1 0F2 0F3 ...
  // rank 1  ... 1F0 1F1 1B0 1B1 ... ... 1F2 1F3
  Plan plan = golden("gpipe");
  std::vector<std::pair<double, int>> levels;
  for (const Level& level : activations_alive(simulated(plan)))
    levels.emplace_back(level.seconds, level.count);
  CHECK(levels ==
        std::vector<std::pair<double, int>>{
            {0, 1}, {1, 3}, {2, 4}, {4, 3}, {5, 1}, {7, 3}, {8, 4}, {10, 3}, {11, 1}, {12, 0}});
  TimeSteps steps = counted(plan);
  CHECK(steps.length == 1);
  CHECK(steps.alive == Ints{1, 3, 4, 4, 3, 1, 1, 3, 4, 4, 3, 1, 0});
  CHECK(steps.values == Ints{0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0});
  CHECK(steps.sums == Ints(13, 0));
  CHECK(steps.first == 0);
  CHECK(steps.last == 6);
  CHECK(steps.computations[1] == Ints{1, 1});
  CHECK(steps.computations[3] == Ints{0, 1});
}

TEST_CASE("time steps: bucketed data parallelism sends in bursts", "[time_steps]") {
  // Both ranks: 0F 1F 1B 0B 0F 1F 1B 0B; stage 1 is reduced at 7, stage 0 at 8, and so on.
  Costs costs{.backward = {1}};
  costs.weight_bytes = {1000};
  TimeSteps steps = counted(golden("data"), costs);
  CHECK(steps.sums == Ints{0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 2, 2});
  CHECK(steps.values == steps.sums);
  CHECK(steps.bytes == Bytes{0, 0, 0, 0, 0, 0, 0, 2000, 2000, 0, 0, 0, 0, 0, 0, 2000, 2000});
  CHECK(*std::max_element(steps.alive.begin(), steps.alive.end()) == 4);
  CHECK(steps.computations[0] == Ints{2, 0});
}

TEST_CASE("time steps: the rounds of an all-reduce are spread over its time", "[time_steps]") {
  Plan plan = make_plan("data", {.width = 4, .microbatches = 1});
  Costs costs{.backward = {1}};
  costs.weight_bytes = {4000};
  costs.latency = 0.5;  // 6 rounds, from 2 on
  costs.sums.how = AllReduce::ring;
  Timeline timeline = simulated(plan, costs);
  TimeSteps steps = time_steps(plan, timeline);
  CHECK(steps.sums == Ints{0, 0, 2, 2, 2, 0});
  CHECK(steps.bytes == Bytes{0, 0, 8000, 8000, 8000, 0});
  CHECK(largest_burst(sendings(plan, timeline), 1) == 8000);
  CHECK(largest_burst(sendings(plan, timeline), 0.1) == 4000);
  CHECK(largest_burst(sendings(plan, timeline), 100) == 24000);
  costs.weight_bytes = {4001};  // a rank sends 6001 in 6 rounds
  CHECK(largest_burst(sendings(plan, simulated(plan, costs)), 100) == 24004);
  CHECK(largest_burst({}, 1) == 0);
}

TEST_CASE("time steps: a measured message begins when all its ends have come to it",
          "[time_steps]") {
  Plan plan = parse("stages 1 per_step 2 groups 0,1\n0F0v0 0B0v0 0Rv1@0 0p0>1\n0F1v0 0Rv1@0 0p0<0");
  auto record = [](int rank, const char* text, double start, double end, std::int64_t bytes) {
    Instruction x = parse_instruction(text);
    return Record{rank, is_compute(x) ? Lane::compute : Lane::message, x, start, end, bytes};
  };
  Timeline timeline{
      2,
      {record(0, "0F0v0", 0, 1, 0), record(0, "0B0v0", 1, 2, 0), record(0, "0Rv1@0", 2, 6, 10),
       record(0, "0p0>1", 2, 3, 7), record(1, "0F1v0", 0, 1, 0), record(1, "0Rv1@0", 4, 6, 10),
       record(1, "0p0<0", 2.5, 3, 0)}};
  std::vector<double> moments;
  for (const Sending& sending : sendings(plan, timeline)) moments.push_back(sending.seconds);
  CHECK(moments == std::vector<double>{2.5, 4, 4, 5, 5});
  TimeSteps steps = time_steps(plan, timeline);
  CHECK(steps.sums == Ints{0, 0, 1, 0, 1, 1, 0});
  CHECK(steps.bytes == Bytes{0, 0, 7, 0, 10, 10, 0});
}

TEST_CASE("time steps: the round dance, in every setting", "[time_steps]") {
  for (const char* setting : {"data", "model", "pipeline", "zero"}) {
    CAPTURE(setting);
    TimeSteps steps = counted(golden(std::string("cyclic_v2_") + setting));
    REQUIRE(steps.alive.size() == 17);
    CHECK(part(steps.alive, 4, 17) == Ints{6, 6, 6, 6, 6, 6, 6, 6, 5, 4, 2, 1, 0});
    CHECK(*std::max_element(steps.alive.begin(), steps.alive.end()) == 6);
    // Where nothing holds the first forwards back, they begin early, and stage 0 then waits.
    for (int t = 6; t < 12; ++t) CHECK(steps.computations[t] == Ints{1, 1, 1});
    int sent = std::accumulate(steps.sums.begin(), steps.sums.end(), 0);
    CHECK(sent == std::map<std::string, int>{
                      {"data", 24}, {"model", 14}, {"pipeline", 0}, {"zero", 16}}[setting]);
  }
}

TEST_CASE("time steps: a burst is one of the middle, not of the plan's end", "[time_steps]") {
  Costs costs{.backward = {1}};
  costs.weight_bytes = {1000};
  for (int updates : {2, 3, 6}) {
    Plan plan = make_plan("cyclic-v2", {.stages = 4, .microbatches = 4, .steps = updates});
    Timeline timeline = simulated(plan, costs);
    const double end = timeline.makespan();
    timeline.records.push_back({0, Lane::message, parse_instruction("0p99>1"), end, end, 90000});
    CAPTURE(updates);
    CHECK(largest_burst(sendings(plan, timeline), 1) >= 90000);
    CHECK((largest_burst(inner_sendings(plan, timeline), 1) <= 4000) == (updates > 2));
  }
  Plan plan = make_plan("data", {.stages = 4, .width = 4, .steps = 4});
  Timeline timeline = simulated(plan, costs);
  CHECK(largest_burst(inner_sendings(plan, timeline), 1) == 2 * 3 * 1000);
  CHECK(inner_sendings(plan, timeline).size() == sendings(plan, timeline).size() / 2);
}

/// Sums that are sent in one training step.
int sums_sent(const std::string& setting, int n) {
  if (setting == "data") return 2 * n * (n - 1);  // as many as a ring all-reduce has
  if (setting == "model") return (n - 1) * (n - 1) + n * (n - 1) / 2;
  return setting == "zero" ? (n - 1) * (n + 1) : 0;
}

void check_dance(const std::string& schedule, const std::string& setting, int n) {
  CAPTURE(schedule, setting, n);
  Layout layout{.stages = n, .microbatches = n, .steps = 8, .setting = settings().at(setting)};
  TimeSteps steps = counted(make_plan(schedule, layout));
  REQUIRE(steps.last - steps.first == 2 * n);
  CHECK(*std::max_element(steps.alive.begin(), steps.alive.end()) == n * (n + 1) / 2);
  Ints sums = part(steps.sums, steps.first, steps.last);
  CHECK(std::accumulate(sums.begin(), sums.end(), 0) == sums_sent(setting, n));
  CHECK(*std::max_element(sums.begin(), sums.end()) <= (n % 2 == 0 ? n : n + 1));
}

TEST_CASE("time steps: the round dance between its first and its last step", "[time_steps]") {
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (const char* setting : {"data", "model", "pipeline", "zero"})
      for (int n : {2, 3, 4, 5, 8}) check_dance(schedule, setting, n);
}

TEST_CASE("activations alive: what is recomputed lives twice", "[time_steps]") {
  Layout layout{.stages = 2, .microbatches = 2, .recompute = true};
  Plan plan = make_plan("gpipe", layout);
  Timeline timeline = simulated(plan);
  // rank 0  0F0 0F1 ... ... ... 0F0 0B0 0F1 0B1
  // rank 1  ... 1F0 1F1 1F0 1B0 1F1 ... (the last forward is followed by its backward at once)
  Ints alive = time_steps(plan, timeline).alive;
  CHECK(*std::max_element(alive.begin(), alive.end()) == 2);
  Timeline measured = timeline;  // the engine writes no drops down
  std::erase_if(measured.records, [](const Record& x) { return x.instruction.op == Op::drop; });
  CHECK(time_steps(plan, measured).alive == alive);

  Timeline split{1,
                 {{0, Lane::compute, parse_instruction("0F0v0"), 0, 1},
                  {0, Lane::compute, parse_instruction("0I0v0"), 1, 1.5},
                  {0, Lane::compute, parse_instruction("0W0v0"), 2.5, 3}}};
  CHECK(time_step(split) == 1);
  Timeline two_stages = split;
  for (const char* words : {"1F0v0", "1B0v0"})
    two_stages.records.push_back({0, Lane::compute, parse_instruction(words), 3, 5});
  CHECK(time_step(two_stages) == 2 * 1.5);  // one rank computes both; two ranks do so together
  two_stages.ranks = 2;
  CHECK(time_step(two_stages) == 1.5);
  CHECK(activations_alive(split).back().seconds == 3);
}

TEST_CASE("activations alive: rounding makes no gaps", "[time_steps]") {
  Costs costs{.backward = {1}};
  costs.forward = costs.backward = {0.1};
  TimeSteps steps = counted(golden("cyclic_v2_data"), costs);
  CHECK(steps.alive == Ints{1, 2, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 5, 4, 2, 1, 0});
  for (const Level& level : activations_alive(simulated(golden("cyclic_v2_data"), costs)))
    if (level.seconds > 0.41 && level.seconds < 1.19) CHECK(level.count == 6);
}

TEST_CASE("time steps: a timeline without computations is refused", "[time_steps]") {
  CHECK_THROWS_WITH(time_steps({}, {}), Contains("no forward or backward takes time"));
  CHECK(activations_alive({}).size() == 1);
}
