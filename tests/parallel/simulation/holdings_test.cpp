// What ranks hold: versions, activations and sums against the facts of the verifier; shards.
#include "parallel/simulation/holdings.h"

#include <algorithm>

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace paragrad::parallel;

namespace {

/// The most values of a kind that a rank holds at once, counted as `alike` says.
template <class Chosen>
int most_at_once(const std::vector<Holding>& held, int rank, Chosen is_chosen) {
  int most = 0;
  for (const Holding& at : held) {
    if (at.rank != rank || !is_chosen(at)) continue;
    const double moment = at.start + (at.end - at.start) * 1e-6;
    most = std::max(most, static_cast<int>(std::ranges::count_if(held, [&](const Holding& h) {
                      return h.rank == rank && is_chosen(h) && h.start <= moment && moment < h.end;
                    })));
  }
  return most;
}

}  // namespace

TEST_CASE("holdings: as many versions and activations as the verifier counts", "[simulate]") {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "2bw", "pipedream", "paci"}) {
    CAPTURE(name);
    const VerifiedPlan plan = verify(make_plan(name, {.stages = 4, .microbatches = 4, .steps = 3}));
    const Costs costs{.backward = {2}, .step = {0.25}};
    const auto held = holdings(plan.plan(), simulate(plan, costs));
    for (int rank = 0; rank < plan.plan().ranks(); ++rank) {
      CHECK(most_at_once(held, rank, [](const Holding& h) {
              return h.name.what == Value::stash;
            }) == plan.facts().peak_microbatches[rank]);
      int versions = 0;
      for (int stage : plan.facts().held[rank])
        versions = std::max(versions, most_at_once(held, rank, [&](const Holding& h) {
                              return h.name.what == Value::weights && h.name.stage == stage;
                            }));
      CHECK(versions == plan.facts().live_versions[rank]);
    }
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
    if (h.rank == 0 && h.name.what == Value::weights) (h.shard ? shards : whole) += h.end - h.start;
  CHECK(shards >= 3 * timeline.makespan());
  CHECK(whole > 0);
  CHECK(whole < 3 * timeline.makespan());
}
