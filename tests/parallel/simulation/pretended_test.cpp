// Pretended devices: which computations they have times for, and what the simulator is told.
// Not here: runs on them (tests/parallel/engine/pretended_time_test.cpp). Chapter 06.
#include "parallel/simulation/machine.h"

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

const Pretended half_open{.forward = {2}, .backward = {3, 5}, .step = {0, 7, 0}};

}  // namespace

TEST_CASE("pretended: seconds are the simulator's, by stage, half for a part", "[pretend]") {
  const Plan plan = make_plan("1f1b", {.stages = 2, .microbatches = 2, .tied = true});
  auto seconds = [&](const char* text) { return half_open.seconds(plan, parse_instruction(text)); };
  CHECK(seconds("0F0v0") == 2);
  CHECK(seconds("1F1v0") == 2);
  CHECK(seconds("0B0v0") == 3);
  CHECK(seconds("1B0v0") == 5);
  CHECK(seconds("1I0v0") == 2.5);
  CHECK(seconds("1W0v0") == 2.5);
  CHECK(seconds("0Sv1") == 0);
  CHECK(seconds("1Sv1") == 7);
  CHECK(seconds("2Sv1") == 0);  // the tied stage's
  CHECK(seconds("0Da0") == 0);
  CHECK(seconds("0a0>1") == 0);
  CHECK(seconds("0R0") == 0);
  // Four forwards, four backwards, and one update of stage 1.
  CHECK(half_open.computations(plan) == 9);
  CHECK(Pretended().computations(plan) == 0);
}

TEST_CASE("pretended: what is not given stays as it was measured", "[pretend]") {
  const Plan plan = make_plan("1f1b", {.stages = 2, .microbatches = 2});
  Costs measured;
  measured.forward = {10, 11};
  measured.backward = {20, 21};
  measured.step = {30, 31};
  measured.latency = 40;
  measured.bandwidth = 50;
  const Costs costs = half_open.instead_of(measured, plan);
  CHECK(costs.forward == std::vector<double>{2, 2});
  CHECK(costs.backward == std::vector<double>{3, 5});
  CHECK(costs.step == std::vector<double>{30, 7});
  CHECK(costs.latency == 40);
  CHECK(costs.bandwidth == 50);
  CHECK_NOTHROW(check(costs, plan));
  measured.input_part = measured.weight_part = {22, 23};
  CHECK(half_open.instead_of(measured, plan).weight_part == std::vector<double>{1.5, 2.5});

  CHECK_FALSE(costs.machine);
  const Costs linked = Pretended{.topology = pair_links(0, 9)}.instead_of(measured, plan);
  CHECK(linked.forward == measured.forward);
  CHECK(linked.machine->topology.links[0].bandwidth == 9);
}

TEST_CASE("pretended: nothing, computations, links", "[pretend]") {
  CHECK_FALSE(Pretended().computes());
  CHECK_FALSE(Pretended().links());
  CHECK(half_open.computes());
  CHECK_FALSE(half_open.links());
  CHECK(Pretended{.step = {0, 1, 0}}.computes());
  CHECK(Pretended{.topology = pair_links(0, 1)}.links());
}
