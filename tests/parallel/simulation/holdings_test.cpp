// What ranks hold: versions, activations and sums against the facts of the verifier; shards.
#include "parallel/simulation/holdings.h"

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

TEST_CASE("holdings: as many versions and activations as the verifier counts", "[simulate]") {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "2bw", "pipedream", "paci"}) {
    CAPTURE(name);
    const VerifiedPlan plan = verify(make_plan(name, {.stages = 4, .microbatches = 4, .steps = 3}));
    const Costs costs{.backward = {2}, .step = {0.25}};
    const auto held = holdings(plan.plan(), simulate(plan, costs));
    const int ranks = plan.plan().ranks();
    CHECK(most_held(held, Hold::activations, ranks) == plan.facts().peak_microbatches);
    std::vector<int> versions(ranks);  // of one stage
    for (int stage = 0; stage < plan.plan().stages; ++stage) {
      auto of_stage = held;
      std::erase_if(of_stage, [&](const Holding& h) { return h.name.stage != stage; });
      std::ranges::transform(versions, most_held(of_stage, Hold::weights, ranks), versions.begin(),
                             std::ranges::max);
    }
    CHECK(versions == plan.facts().live_versions);
  }
}

TEST_CASE("holdings: with ZeRO level 3 a rank has its shard always, whole weights for a while",
          "[simulate]") {
  Layout layout{.stages = 3, .width = 2};
  layout.zero = 3;
  const VerifiedPlan plan = verify(make_plan("data", layout));
  const Timeline timeline = simulate(plan, {.latency = 0.125});
  double shards = 0, whole = 0;
  for (const Holding& h : holdings(plan.plan(), timeline))
    if (h.rank == 0 && h.name.what == Value::weights)
      (h.hold == Hold::shard ? shards : whole) += h.end - h.start;
  CHECK(shards >= 3 * timeline.makespan());
  CHECK(whole > 0);
  CHECK(whole < 3 * timeline.makespan());
}

TEST_CASE("memory: bytes of what a rank holds, over time, by hand", "[simulate]") {
  const Plan plan = parse("stages 1 per_step 1 steps 1\n0F0v0 0B0v0 0Sv1\n");
  const Timeline timeline = simulate(verify(plan), {.backward = {2}, .step = {1}});
  const Sizes sizes{.weights = {100},
                    .sum = {50},
                    .optimizer = {7},
                    .activations = {10},
                    .output = {1000}};  // of the last stage: nobody gets it
  const std::vector<Holding> held = holdings(plan, timeline);
  const std::vector<MemoryLevel> levels = memory_levels(plan, held, sizes).at(0);
  std::vector<std::pair<double, double>> totals;
  for (const MemoryLevel& level : levels) totals.emplace_back(level.seconds, level.total());
  CHECK(totals == std::vector<std::pair<double, double>>{
                      {0, 7 + 100 + 10}, {1, 7 + 100 + 10 + 50}, {3, 7 + 100 + 50}, {4, 7}});
  const MemoryLevel peak = memory_peaks(plan, held, sizes).at(0);
  CHECK(peak.seconds == 1);
  CHECK(peak.bytes == std::array<double, memory_kinds>{7, 100, 50, 10, 0});
  CHECK_FALSE(Sizes().any());
  CHECK(sizes.any());
}

TEST_CASE("memory: shards are parts, and a whole version and a message are there a while",
          "[simulate]") {
  Layout layout{.stages = 1, .width = 2};
  layout.zero = 3;
  const Plan sharded = make_plan("data", layout);
  const Sizes sizes{.weights = {100}, .optimizer = {8}};
  const auto memory_of = [&](const Plan& plan, const Sizes& of) {
    const Timeline timeline = simulate(verify(plan), {.step = {1}, .latency = 0.125});
    return memory_levels(plan, holdings(plan, timeline), of).at(0);
  };
  const std::vector<MemoryLevel> levels = memory_of(sharded, sizes);
  CHECK(levels.front().total() == 50 + 4);
  CHECK(std::ranges::max(levels, {}, &MemoryLevel::total).total() == 50 + 100 + 4);

  const Plan pipeline = make_plan("gpipe", {.stages = 2, .microbatches = 2});
  std::array<double, memory_kinds> sent_only = {};
  sent_only[static_cast<int>(Memory::messages)] = 16;
  const std::vector<MemoryLevel> sent = memory_of(pipeline, {.output = {16}});
  CHECK(std::ranges::max(sent, {}, &MemoryLevel::total).bytes == sent_only);
  CHECK(sent.back().total() == 0);
}

TEST_CASE("memory: costs tell the size of an output without the codec of its messages",
          "[simulate]") {
  Plan plan = make_plan("gpipe", {.stages = 2, .microbatches = 2});
  plan.channel = parse_codec("topk:0.25");
  Costs costs{.backward = {1}};
  costs.activation_bytes = {4000};
  costs = encoded(costs, plan);
  CHECK(costs.activation_bytes.front() < 4000);
  CHECK(sizes_of(costs).output == std::vector<double>{4000});
  CHECK(sizes_of(costs).activations == std::vector<double>{4000});
}
