// What ranks hold: versions, activations and sums against the facts of the verifier; shards.
#include "parallel/simulation/holdings.h"

#include <algorithm>

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
