// What sums and gathers of a group cost: closed forms of each reduction, on links of their own and
// on shared cards; and plans whose messages share links.
// Not here: bytes, and what waits for a sum (simulated_collectives_test.cpp). Chapters 04 and 06.

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/machine.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/simulation/timelines.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

constexpr double latency = 0.5, bandwidth = 64;
constexpr std::int64_t bytes = 5040;  // 1 to 9 divide it

struct Asked {
  AllReduce how = AllReduce::scatter_reduce;
  int members = 2, zero = 0;
  const char* codec = "none";
  std::vector<int> hosts = {};
};

Costs costs_of(const Asked& asked) {
  Costs costs{.bandwidth = bandwidth, .latency = latency, .weight_bytes = {bytes}};
  costs.sums = {asked.how, asked.hosts};
  return costs;
}

std::shared_ptr<const Machine> on(const Topology& topology) {
  return std::make_shared<Machine>(Machine{.topology = topology});
}

/// Seconds of the first instruction of a kind in a plan of replicas.
double seconds(const Asked& asked, const Costs& costs, const char* instruction = "0Rv1@0") {
  Plan plan = make_plan("data", {.width = asked.members, .microbatches = 1, .steps = 1});
  plan.sharded = asked.zero;
  plan.codec = parse_codec(asked.codec);
  return meeting_seconds(parse_instruction(instruction), plan, costs);
}
double seconds(const Asked& asked) { return seconds(asked, costs_of(asked)); }

const double whole = bytes / bandwidth;

}  // namespace

TEST_CASE("meetings: a ring takes 2 (N-1) rounds of a chunk, half of them with shards",
          "[meetings]") {
  for (int n = 2; n <= 9; ++n) {
    const double half = (n - 1) * (latency + whole / n);
    CAPTURE(n);
    CHECK(seconds({AllReduce::ring, n}) == Approx(2 * half).epsilon(1e-12));
    for (int zero : {1, 2, 3})
      CHECK(seconds({AllReduce::ring, n, zero}) == Approx(half).epsilon(1e-12));
    const Asked asked{AllReduce::ring, n, 1};
    CHECK(seconds(asked, costs_of(asked), "0Gwv1@0") == Approx(half).epsilon(1e-12));
  }
}

TEST_CASE("meetings: scatter takes two rounds of a chunk, of which four are in flight",
          "[meetings]") {
  for (int n = 3; n <= 9; ++n) {
    const double half = std::ceil((n - 1) / 4.0) * (latency + whole / n);
    CAPTURE(n);
    CHECK(seconds({.members = n}) == Approx(2 * half).epsilon(1e-12));
    const Asked asked{.members = n, .zero = 1};
    CHECK(seconds(asked) == Approx(half).epsilon(1e-12));
    CHECK(seconds(asked, costs_of(asked), "0Gwv1@0") == Approx(half).epsilon(1e-12));
  }
  CHECK(seconds({.members = 2}) == Approx(latency + whole));  // both send all they have
  const Asked asked{.members = 4};
  CHECK(seconds(asked, costs_of(asked), "Rnv1@0") == Approx(2 * (latency + 2 / bandwidth)));
}

TEST_CASE("meetings: a tree goes up and down its levels", "[meetings]") {
  for (int levels = 1; levels <= 4; ++levels)
    CHECK(seconds({reductions().at("tree"), 1 << levels}) ==
          Approx(2 * levels * (latency + whole)).epsilon(1e-12));
}

TEST_CASE("meetings: a hierarchical sum enters a host's first rank, and leaves it", "[meetings]") {
  Asked asked{reductions().at("hierarchical"), 4, 0, "none", {0, 0, 1, 1}};
  Costs costs = costs_of(asked);
  costs.weight_bytes = {0};
  CHECK(seconds(asked, costs) == Approx(4 * latency));
  // Within hosts messages take no time, so cards set it: of four hosts each sends three quarters,
  // twice.
  asked.members = 12;
  asked.hosts.clear();
  costs = costs_of(asked);
  costs.machine =
      on(Topology{{{"card", Reach::card, bandwidth, 0}, {"inside", Reach::pair, 1e30, 0}}, 3});
  CHECK(seconds(asked, costs) == Approx(2 * 0.75 * whole));
}

TEST_CASE("meetings: a codec that makes factors sums twice, others send fewer bytes",
          "[meetings]") {
  Asked asked{.members = 4, .codec = "lowrank:2"};
  CHECK(seconds(asked) == Approx(4 * latency + 2 * whole / 4));
  asked.codec = "pca:2";
  CHECK(seconds(asked) == Approx(2 * latency + 2 * whole / 4));
  asked.codec = "quantize:4";
  Costs costs = costs_of(asked);
  costs.sum_bytes = {bytes / 8};
  CHECK(seconds(asked, costs) == Approx(2 * latency + 2 * whole / 4 / 8).epsilon(1e-2));
}

TEST_CASE("meetings: large sums travel in pieces, which do not wait for each other's latency",
          "[meetings]") {
  // Four members, eight pieces a chunk. A link is never free from the second round on.
  Asked asked{AllReduce::ring, 4};
  Costs costs = costs_of(asked);
  constexpr std::int64_t piece = 256 << 10;
  costs.weight_bytes = {4 * 8 * piece};
  costs.bandwidth = 8 * piece;
  costs.latency = 0.01;
  const double ring = seconds(asked, costs);
  CHECK(ring >= 6);
  CHECK(ring < 6 + 6 * 0.01);
  // By chunks a tree would take 4 levels of 4 seconds.
  asked.how = costs.sums.how = reductions().at("tree");
  CHECK(seconds(asked, costs) < 12);
}

TEST_CASE("meetings: on a card of its own, each member sends at the card's rate", "[meetings]") {
  const auto cards = on(Topology{{{"card", Reach::card, bandwidth}}, 1});
  for (int n = 2; n <= 8; ++n)
    for (AllReduce how : {AllReduce::ring, AllReduce::scatter_reduce}) {
      CAPTURE(n);
      const Asked asked{how, n};
      Costs costs = costs_of(asked);
      costs.machine = cards;
      CHECK(seconds(asked, costs) == Approx(2.0 * (n - 1) / n * whole));
    }
  const Asked tree{reductions().at("tree"), 4};
  Costs costs = costs_of(tree);
  costs.machine = cards;
  CHECK(seconds(tree, costs) == Approx(5 * whole));  // down, two messages share the root's card
}

TEST_CASE("meetings: replicas of stages that share a card take as many times as long",
          "[meetings]") {
  // Two hosts; the replicas of each stage are on different ones.
  for (int stages : {1, 2, 4}) {
    const VerifiedPlan plan =
        verify(make_plan("gpipe", {.stages = stages, .width = 2, .microbatches = 1, .steps = 1}));
    Costs costs{.forward = {0}, .backward = {0}, .weight_bytes = {bytes}};
    Topology topology{{{"card", Reach::card, bandwidth}, {"inside", Reach::pair, 1e30}}, stages};
    for (int rank = 0; rank < plan.plan().ranks(); ++rank) {
      // Ranks of a group are on different hosts.
      int replica = 0, stage = 0;
      for (std::size_t group = 0; group < plan.plan().groups.size(); ++group)
        for (int member : {0, 1})
          if (plan.plan().groups[group][member] == rank)
            replica = member, stage = static_cast<int>(group);
      costs.devices.push_back(replica * stages + stage);
    }
    costs.machine = on(topology);
    CAPTURE(stages);
    CHECK(simulate(plan, costs).makespan() == Approx(stages * whole));
  }
}

TEST_CASE("meetings: a sharded plan needs a reduction with a part for each member", "[meetings]") {
  CHECK_THROWS_WITH(seconds({reductions().at("tree"), 4, 1}),
                    Contains("--reduction scatter or ring"));
}

TEST_CASE("simulate: links that never delay give the times of no links", "[simulate]") {
  for (const char* name :
       {"1f1b", "2bw", "cyclic_v2_data", "cyclic_v2_model", "cyclic_v2_pipeline", "cyclic_v2_zero",
        "data", "gpipe", "interleaved", "pipedream", "zero_1_clip", "zero_3", "zero_bubble"}) {
    const Plan plan = example(name);
    CAPTURE(name);
    Costs costs;
    costs.backward = {2.3};
    costs.step = {0.37};
    const double ideal = simulate_unverified(plan, costs).makespan();
    costs.latency = 0.11;
    costs.activation_bytes = {170};
    costs.weight_bytes = {530};
    const double late = simulate_unverified(plan, costs).makespan();
    costs.machine = on(pair_links(costs.latency, std::numeric_limits<double>::infinity()));
    CHECK(simulate_unverified(plan, costs).makespan() == Approx(late).epsilon(1e-12));
    costs.machine = on(pair_links(0, std::numeric_limits<double>::infinity()));
    CHECK(simulate_unverified(plan, costs).makespan() == ideal);  // to the bit
  }
}
