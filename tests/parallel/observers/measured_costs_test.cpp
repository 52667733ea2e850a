// Costs that a run measured, against a timeline by hand.
#include "parallel/observers/recording.h"

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

Record computed(const char* text, double seconds) {
  return {0, Lane::compute, parse_instruction(text), 10, 10 + seconds};
}

}  // namespace

TEST_CASE("measured costs: whole backwards and their parts have medians of their own", "[costs]") {
  const Plan plan = parse(
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 1F0v0 1I0v0 0B0v0 1W0v0 0F1v0 1F1v0 1I1v0 0B1v0 1W1v0 0Sv1 1Sv1\n");
  const Costs costs = measured_costs(
      plan, {1,
             {computed("0F0v0", 2), computed("1F0v0", 1), computed("1I0v0", 4),
              computed("0B0v0", 9), computed("1W0v0", 16), computed("0F1v0", 2),
              computed("1F1v0", 1), computed("1I1v0", 4), computed("0B1v0", 9),
              computed("1W1v0", 16), computed("0Sv1", 0.5), computed("1Sv1", 0.25)}});
  using List = std::vector<double>;
  CHECK(costs.forward == List{2, 1});
  CHECK(costs.backward == List{9, 0});
  CHECK(costs.input_part == List{0, 4});
  CHECK(costs.weight_part == List{0, 16});
  CHECK(costs.step == List{0.5, 0.25});
  CHECK(simulate(verify(plan), costs).makespan() == 2 * (2 + 1 + 4 + 9 + 16) + 0.75);
}

TEST_CASE("measured costs: a plan costs what it did, however large its groups are", "[costs]") {
  for (const char* schedule : {"data", "1f1b"})
    for (const int replicas : {2, 8, 32})
      for (const int zero : {0, 1}) {
        Layout layout{.microbatches = 2, .steps = 2, .clip = true};
        layout.stages = schedule == std::string("data") ? 1 : 3;
        layout.width = replicas;
        layout.zero = zero;
        const VerifiedPlan plan = verify(make_plan(schedule, layout));
        const Costs costs{.forward = {0.01},
                          .backward = {0.02},
                          .step = {0.001},
                          .bandwidth = 1e9,
                          .latency = 2e-5,
                          .activation_bytes = {100'000},
                          .weight_bytes = {4'000'000}};
        const Timeline before = simulate(plan, costs);
        const Timeline again = simulate(plan, measured_costs(plan.plan(), before));
        CAPTURE(schedule, replicas, zero);
        CHECK(again.makespan() > 0.9 * before.makespan());
        CHECK(again.makespan() < 1.1 * before.makespan());
      }
}

TEST_CASE("where ranks share cores, an update of a long run takes CPU times, too", "[costs]") {
  const Layout layout{.stages = 2, .microbatches = 4, .steps = 2};
  const VerifiedPlan plan = verify(make_plan("2bw", layout));
  RecordedUpdates recorded{"", plan.plan(), simulate(plan, {.forward = {2}, .backward = {6}}), {}};
  for (Record& record : recorded.timeline.records) record.cpu = (record.end - record.start) / 2;
  recorded.endless = std::make_shared<VerifiedPlan>(verify(*make_endless("2bw", layout)));
  const auto times = facts_of(recorded, {nullptr, SharedCores{2, 1}}).summary["update_seconds"];
  CHECK(times["steady_state"].get<double>() == Approx(4 * (1 + 3)));
}
