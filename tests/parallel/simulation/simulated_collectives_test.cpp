// Collectives and waits for them in simulated time: all-reduces, norms, folds, gathers.
// Not here: computations and messages of pairs (simulate_test), and sharding's closed forms
// (sharding_costs_test).
#include "tests/catch.h"
#include "tests/parallel/simulation/timelines.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

TEST_CASE("simulate: a group waits for its last member and has one queue", "[simulate]") {
  Costs costs{.backward = {1}};
  costs.latency = 1;
  costs.bandwidth = 10;
  costs.weight_bytes = {20};  // N = 2: 2 (1 + 20 / (2 * 10)) = 4 s
  costs.sums.how = AllReduce::ring;
  Plan plan = rows("0F0v0 0B0v0 0Rv1@0 0F1v0 0Sv1\n0F2v0 0B2v0 0F3v0 0Rv1@0 0F4v0 0Sv1");
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 0, "0Rv1@0") == Span(3, 7));
  CHECK(span(timeline, 1, "0Rv1@0") == Span(3, 7));
  CHECK(span(timeline, 0, "0F1v0") == Span(2, 3));
  CHECK(span(timeline, 0, "0Sv1") == Span(7, 7));

  Plan queue = rows(
      "0F0v0 0B0v0 0Rv1@0 1B0v0 1Rv1@0 2B0v0 2Rv1@1\n"
      "0F1v0 0B1v0 0Rv1@0 1B1v0 1Rv1@0 2B1v0 2Rv1@1",
      "stages 3 groups 0,1/0,1");
  Timeline queued = simulate_unverified(queue, costs);
  CHECK(span(queued, 0, "0Rv1@0") == Span(2, 6));
  CHECK(span(queued, 0, "1Rv1@0") == Span(6, 10));  // issued at 3
  CHECK(span(queued, 0, "2Rv1@1") == Span(4, 8));   // another group
}

TEST_CASE("simulate: bytes and time of reductions", "[simulate]") {
  for (int members = 1; members <= 9; ++members) {
    std::string text, group;
    for (int rank = 0; rank < members; ++rank) {
      text += "0F" + std::to_string(rank) + "v0 0B" + std::to_string(rank) + "v0 0Rv1@0 0Sv1\n";
      group += (rank > 0 ? "," : "") + std::to_string(rank);
    }
    Costs costs{.backward = {1}};
    costs.weight_bytes = {5040};  // 1 to 9 divide it
    costs.bandwidth = 64;
    costs.latency = 0.5;
    costs.sums.how = AllReduce::ring;
    for (int sharded : {0, 2}) {
      std::string header = "stages 1 sharded " + std::to_string(sharded) + " groups " + group;
      Timeline timeline = simulate_unverified(rows(text, header), costs);
      int rounds = (sharded > 0 ? 1 : 2) * (members - 1);
      for (int rank = 0; rank < members; ++rank)
        CHECK(find(timeline, rank, "0Rv1@0").bytes == rounds * 5040 / members);
      CHECK(timeline.makespan() ==
            Approx(2 + rounds * (0.5 + 5040.0 / members / 64)).epsilon(1e-12));
    }
  }
}

TEST_CASE("simulate: steps wait for the norm, which waits for all sums", "[simulate]") {
  Costs costs{.backward = {1}};
  costs.latency = 2;  // of two ranks, which sum up in one round
  Plan plan = rows(
      "0F0v0 0B0v0 0Rv1@0 1B0v0 1Rv1@1 Rnv1@0 0Sv1 1Sv1\n"
      "0F1v0 0B1v0 0Rv1@0 1B1v0 1Rv1@1 Rnv1@0 0Sv1 1Sv1",
      "stages 2 clip 1 groups 0,1/0,1");
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 0, "1Rv1@1") == Span(3, 5));
  CHECK(span(timeline, 0, "Rnv1@0") == Span(5, 7));
  CHECK(span(timeline, 1, "0Sv1") == Span(7, 7));
  CHECK(find(timeline, 0, "Rnv1@0").bytes == 8);
}

TEST_CASE("simulate: a fold waits for the partial sum, the step for the fold", "[simulate]") {
  Costs costs{.backward = {1}};
  costs.latency = 3;
  Plan plan = parse(
      "stages 1 per_step 2\n0F0v0 0B0v0 0p0>1\n0F1v0 0B1v0 0p0<0 0R1 0p1>2 0Sv1\n"
      "0p1<1 0Sv1");
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 1, "0R1") == Span(5, 5));
  CHECK(span(timeline, 1, "0p1>2") == Span(5, 8));
  CHECK(span(timeline, 1, "0Sv1") == Span(5, 5));
  CHECK(span(timeline, 2, "0Sv1") == Span(8, 8));
}

TEST_CASE("simulate: every use of a tied tensor waits until it is gathered", "[simulate]") {
  Costs costs{.backward = {1}};
  costs.latency = 3;
  Plan plan =
      rows("2Gwv0@0 0F0v0 1F0v0\n2Gwv0@0 1F1v0 0F1v0", "stages 2 sharded 3 tied 0,1 groups 0,1");
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 0, "0F0v0") == Span(3, 4));
  CHECK(span(timeline, 1, "1F1v0") == Span(3, 4));
}

TEST_CASE("simulate: the tied stage costs as the last in the lists", "[simulate]") {
  Costs costs{.backward = {1}};
  costs.step = {1, 2, 8};
  costs.weight_bytes = {10, 20, 80};
  Plan plan = rows(
      "0F0v0 1F0v0 1B0v0 0B0v0 2Rv1@0 0Sv1 1Sv1 2Sv1\n"
      "0F1v0 1F1v0 1B1v0 0B1v0 2Rv1@0 0Sv1 1Sv1 2Sv1",
      "stages 2 tied 0,1 groups 0,1");
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(timeline.makespan() == 4 + 1 + 2 + 8);
  CHECK(find(timeline, 1, "2Rv1@0").bytes == 80);
}

TEST_CASE("simulate: ZeRO 3 gathers beside forwards", "[simulate]") {
  Costs costs{.backward = {1}};
  costs.weight_bytes = {10};
  costs.bandwidth = 10;  // N = 2: a gather takes half a forward
  Timeline timeline = simulate_unverified(example("zero_3"), costs);
  CHECK(span(timeline, 0, "0Gwv0@0") == Span(0, 0.5));
  CHECK(span(timeline, 0, "1Gwv0@0") == Span(0.5, 1));
  CHECK(span(timeline, 0, "0F0v0") == Span(0.5, 1.5));
  CHECK(span(timeline, 0, "1F0v0") == Span(1.5, 2.5));
  // In each of two steps six gathers and three reductions of 5 bytes.
  for (int rank : {0, 1}) {
    std::int64_t bytes = 0;
    for (const Record& record : timeline.records)
      if (record.rank == rank) bytes += record.bytes;
    CHECK(bytes == 2 * 9 * 5);
  }
}
