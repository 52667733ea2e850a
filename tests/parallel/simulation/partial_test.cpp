// How far a broken plan runs: up to the fault, and what does not wait for it.

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/variants.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

/// The computations of a rank that run, as text.
std::string computed(const Timeline& timeline, int rank) {
  std::string words;
  for (const Record& record : timeline.records)
    if (record.rank == rank && record.lane == Lane::compute)
      words += (words.empty() ? "" : " ") + print(record.instruction);
  return words;
}

Timeline until(const std::string& plan, int rank, int index) {
  return simulate_until_blocked(parse(plan), {.backward = {2}, .latency = 0.5}, rank, index)
      .timeline;
}

}  // namespace

TEST_CASE("simulate_until_blocked: a whole plan runs as simulate says", "[simulate]") {
  for (const char* name : {"1f1b", "interleaved", "2bw", "zb-v"}) {
    const Plan plan = make_plan(name, {.stages = 4, .microbatches = 4, .steps = 2});
    const Costs costs{.backward = {2}, .latency = 0.5};
    const Timeline all = simulate_unverified(plan, costs),
                   same = simulate_until_blocked(plan, costs, -1, -1).timeline;
    REQUIRE(same.records.size() == all.records.size());
    for (std::size_t i = 0; i < all.records.size(); ++i) {
      CHECK(same.records[i].instruction == all.records[i].instruction);
      CHECK(same.records[i].start == all.records[i].start);
      CHECK(same.records[i].end == all.records[i].end);
    }
  }
}

TEST_CASE("simulate_until_blocked: other ranks run as far as they do not need the fault",
          "[simulate]") {
  const std::string plan =
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1\n"
      "0a0<0 1F0v0 0a1<0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1\n";
  const Timeline timeline = until(plan, 1, 3);  // the first backward of rank 1
  CHECK(computed(timeline, 0) == "0F0v0 0F1v0");
  CHECK(computed(timeline, 1) == "1F0v0");
  CHECK(computed(until(plan, 0, 2), 1) == "1F0v0 1B0v0");  // the second forward of rank 0
  CHECK(until(plan, 0, 0).records.empty());
}

TEST_CASE("simulate_until_blocked: messages without an end, and ends that differ", "[simulate]") {
  const std::string lost =
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 0a0>1 0F1v0 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1\n"
      "0a0<0 1F0v0 0a1<0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1\n";
  CHECK(computed(until(lost, 1, 2), 0) == "0F0v0 0F1v0");
  const Timeline timeline = until(lost, 1, 99);
  CHECK(computed(timeline, 0) == "0F0v0 0F1v0 0B0v0");
  CHECK(computed(timeline, 1) == "1F0v0 1B0v0");  // 0a1 never comes
  const std::string other =
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 0F1v0 0a1>1 0a0>1 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1\n"
      "0a0<0 1F0v0 0a1<0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1\n";
  CHECK(computed(until(other, 1, 99), 1).empty());
}

TEST_CASE("simulate_until_blocked: a member that never joins, and ranks that wait in a circle",
          "[simulate]") {
  const std::string alone =
      "stages 1 per_step 2 steps 1 groups 0,1\n"
      "0F0v0 0B0v0 0Rv1@0 0Sv1\n"
      "0F1v0 0B1v0 0Sv1\n";
  CHECK(computed(until(alone, 0, 99), 0) == "0F0v0 0B0v0");
  const std::string circle =
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 0a0>1 0g0<1 0B0v0 0F1v0 0a1>1 0g1<1 0B1v0 0Sv1\n"
      "0a0<0 1F0v0 0a1<0 1F1v0 1B0v0 0g0>0 1B1v0 0g1>0 1Sv1\n";
  const Timeline timeline = until(circle, 0, 99);
  CHECK(computed(timeline, 0) == "0F0v0");
  CHECK(computed(timeline, 1) == "1F0v0");
}
