// Paci: its drift, its versions and stashes by closed forms, its time by the simulator.
// Not here: what it learns (drift_rule_test). Chapter 07.

#include "parallel/simulation/simulate.h"
#include "parallel/simulation/variants.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

int rounded_up(int a, int b) { return (a + b - 1) / b; }

Costs costs_of(double forward, double backward) {
  Costs costs;
  costs.forward = {forward};
  costs.backward = {backward};
  return costs;
}

/// Calls check(layout) for 1 to 6 stages and 1 to 7 microbatches, with enough steps to drift.
template <class Check>
void for_each_size(Check check) {
  for (int stages = 1; stages <= 6; ++stages)
    for (int microbatches = 1; microbatches <= 7; ++microbatches) {
      INFO("D" << stages << " m" << microbatches);
      const int drift = rounded_up(stages - 1, microbatches);
      check(Layout{.stages = stages, .microbatches = microbatches, .steps = drift + 2}, drift);
    }
}

}  // namespace

TEST_CASE("paci: one version, drift of ceil((D - 1) / m), and fresh backwards", "[drift]") {
  for (int width : {1, 2})
    for (bool recompute : {false, true})
      for_each_size([&](Layout layout, int drift) {
        layout.width = width;
        layout.recompute = recompute;
        const Facts facts = verify(make_plan("paci", layout)).facts();
        CHECK(facts.drift == drift);
        CHECK(facts.staleness == 0);
        CHECK(facts.capacity == 0);
        CHECK(std::ranges::count(facts.live_versions, 1) == width * layout.stages);
        CHECK(std::ranges::count(facts.versions_in_use, 1) == width * layout.stages);
        for (int rank = 0; rank < width * layout.stages; ++rank)
          CHECK(facts.peak_inputs[rank] ==
                std::min(layout.stages - rank % layout.stages, layout.steps * layout.microbatches));
      });
}

TEST_CASE("paci: one less drift is refused", "[drift]") {
  for_each_size([](const Layout& layout, int drift) {
    if (drift == 0) return;
    Plan plan = make_plan("paci", layout);
    CHECK(plan.drift == drift);
    --plan.drift;
    try {
      verify(plan);
      FAIL("accepted");
    } catch (const PlanError& error) {
      CHECK(error.rule == (drift > 1 ? "drift" : "same version"));
    }
  });
}

TEST_CASE("paci: microbatches read what is there, and no bubble lies between updates", "[drift]") {
  for_each_size([](const Layout& layout, int) {
    const Plan plan = make_plan("paci", layout);
    for (const Row& row : plan.rows)
      for (const Instruction& x : row) {
        const int ahead = begins_pass(x) ? layout.stages - 1 - x.stage : 0;
        if (uses_weights(x)) CHECK(x.version == std::max(x.micro - ahead, 0) / layout.microbatches);
      }
    for (const auto& [forward, backward] : {std::pair{1.0, 2.0}, {3.0, 5.0}, {2.0, 1.0}})
      CHECK(simulate(verify(plan), costs_of(forward, backward)).makespan() ==
            (layout.steps * layout.microbatches + layout.stages - 1) * (forward + backward));
    const auto endless = make_endless("paci", layout);
    REQUIRE(endless);
    const SteadyState steady = steady_state(verify(*endless), costs_of(1, 2));
    CHECK(steady.seconds == layout.microbatches * 3);
    CHECK(steady.bubble == Approx(0).margin(1e-12));
  });
}

TEST_CASE("paci held to a drift: D / (c + 1) rounds a microbatch, rounded up", "[drift]") {
  for (int stages : {2, 4, 5, 8})
    for (int microbatches : {1, 2, 3})
      for (int drift : {1, 2, 3}) {
        INFO("D" << stages << " m" << microbatches << " drift " << drift);
        const int in_flight = std::min(stages, drift * microbatches + 1);
        const Layout layout{
            .stages = stages, .microbatches = microbatches, .steps = 6, .drift = drift};
        const VerifiedPlan plan = verify(make_plan("paci", layout));
        CHECK(plan.facts().drift == rounded_up(in_flight - 1, microbatches));
        CHECK(plan.facts().drift == plan.plan().drift);
        CHECK(plan.facts().peak_microbatches[0] == in_flight);
        const int rounds = rounded_up(stages, in_flight);
        const auto endless = make_endless("paci", layout);
        REQUIRE(endless);
        CHECK(steady_state(verify(*endless), costs_of(1, 2)).seconds == microbatches * rounds * 3);
        const std::string note = find_schedule("paci").note(layout);
        const int full = rounded_up(stages - 1, microbatches);
        CHECK(note.empty() == (rounds == 1 && drift <= full));
        if (drift > full) CHECK_THAT(note, Contains(text("uses a drift of ", full)));
        if (rounds > 1) CHECK_THAT(note, Contains(text("the time of ", rounds, " forwards")));
      }
  CHECK_THROWS_WITH(make_plan("2bw", {.stages = 2, .drift = 1}),
                    Contains("a backward reads the version that its forward read; use paci"));
}

TEST_CASE("paci: the endless plan as it was worked out by hand", "[drift]") {
  const auto plan = make_endless("paci", {.stages = 3, .microbatches = 2});
  REQUIRE(plan);
  CHECK_THAT(print(*plan), Contains("drift 1"));
  CHECK_THAT(print(*plan),
             Contains("\n0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0F2v0 0a2>1 0B0v0 0g1<1 0F3v0 0a3>1 0B1v0 "
                      "0Sv1 | 0g2<1 0F4v1 0a4>1 0B2v1 0g3<1 0F5v1 0a5>1 0B3v1 0Sv2 | "));
}
