// 2BW with fewer microbatches in a step than a full pipeline needs: how long a microbatch takes,
// what stages keep, that nothing else changes, and what the schedule says about it. Chapter 07.
#include <fmt/format.h>

#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/support/scalar_world.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// The simpler rule: every stage runs at most m microbatches ahead of its backwards.
Plan capped_2bw(const Layout& layout) {
  auto version = [&](int micro) { return std::max(micro / layout.per_step() - 1, 0); };
  return lower(pipeline_plan(layout, {2}, [&](Row& row, int replica, int stage) {
    const int ahead = std::min(layout.stages - 1 - stage, layout.microbatches);
    append_1f1b(row, stage, layout.micros(replica), ahead, version);
  }));
}

/// Seconds between microbatches of one replica in a long run, without filling and draining.
double seconds_each(Layout layout, double forward, double backward, auto make) {
  constexpr int steps = 12;
  Costs costs;
  costs.forward = {forward};
  costs.backward = {backward};
  auto makespan = [&](int count) {
    layout.steps = count;
    return simulate_unverified(make(layout), costs).makespan();
  };
  return (makespan(2 * steps) - makespan(steps)) / (steps * layout.microbatches);
}

Plan scheduled(const Layout& layout) { return make_plan("2bw", layout); }

/// Calls check(layout) for 2 to 8 stages and 1 to as many microbatches.
template <class Check>
void for_each_depth(Check check) {
  for (int stages = 2; stages <= 8; ++stages)
    for (int microbatches = 1; microbatches <= stages; ++microbatches) {
      INFO("D" << stages << " m" << microbatches);
      check(Layout{.stages = stages, .microbatches = microbatches, .steps = 5});
    }
}

int rounded_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace

TEST_CASE("2BW: a microbatch takes D / (m + 1) rounds, rounded up", "[2bw]") {
  for_each_depth([](Layout layout) {
    const int rounds = rounded_up(layout.stages, layout.microbatches + 1);
    for (const auto& [forward, backward] : {std::pair{1.0, 2.0}, {3.0, 5.0}, {2.0, 1.0}})
      CHECK(seconds_each(layout, forward, backward, scheduled) == rounds * (forward + backward));
    // One round in a full pipeline: m = D - 1 is enough, and m = D - 2 is not.
    CHECK((rounds == 1) == (layout.microbatches >= layout.stages - 1));
    // Stages that are all held to m ahead lock step.
    const int capped = std::max(layout.stages - layout.microbatches, 1);
    CHECK(seconds_each(layout, 1, 2, capped_2bw) == capped * 3);
    layout.clip = true;
    CHECK(seconds_each(layout, 1, 2, scheduled) == rounds * 3);
    layout.width = 2;
    CHECK(seconds_each(layout, 1, 2, scheduled) == rounds * 3);
  });
}

TEST_CASE("2BW: with few microbatches, stages keep no more, and two versions", "[2bw]") {
  for_each_depth([](const Layout& layout) {
    const Facts facts = verify(scheduled(layout)).facts();
    const Facts capped = verify(capped_2bw(layout)).facts();
    CHECK(facts.live_versions == std::vector<int>(layout.stages, 2));
    CHECK(std::ranges::max(facts.versions_in_use) == 2);
    CHECK(facts.staleness == 1);
    CHECK(facts.capacity == 0);
    const int in_flight = std::min(layout.stages, layout.microbatches + 1);
    for (int stage = 0; stage < layout.stages; ++stage) {
      const int kept = rounded_up(in_flight * (layout.stages - stage), layout.stages);
      CHECK(facts.peak_microbatches[stage] == kept);
      CHECK(facts.peak_microbatches[stage] <= capped.peak_microbatches[stage]);
    }
  });
}

TEST_CASE("2BW: how far stages run ahead changes no number", "[2bw]") {
  for_each_depth([](Layout layout) {
    for (bool clip : {false, true}) {
      layout.clip = clip;
      for (int capacity : {-1, 0})
        CHECK(run_scalar(scheduled(layout), 3, capacity) ==
              run_scalar(capped_2bw(layout), 3, capacity));
    }
  });
}

TEST_CASE("2BW: plans of a full pipeline are those of 1F1B's order, cell for cell", "[2bw]") {
  for (int stages = 1; stages <= 8; ++stages)
    for (int microbatches : {std::max(stages - 1, 1), stages, stages + 3})
      for (int width : {1, 2})
        for (bool clip : {false, true}) {
          const Layout layout{.stages = stages,
                              .width = width,
                              .microbatches = microbatches,
                              .steps = 3,
                              .clip = clip,
                              .tied = stages > 1 && clip};
          CHECK(scheduled(layout) == capped_2bw(layout));
        }
  const Layout few{.stages = 4, .microbatches = 1, .steps = 3};
  CHECK(scheduled(few) != capped_2bw(few));  // so the comparison can fail
}

TEST_CASE("2BW says what too few microbatches cost, as simulated", "[2bw]") {
  const auto note = find_schedule("2bw").note;
  for_each_depth([&](const Layout& layout) {
    const double each = seconds_each(layout, 1, 2, scheduled);
    CHECK((each == 3) == note(layout).empty());
    if (each == 3) return;
    Layout enough = layout;
    enough.microbatches = layout.stages - 1;
    const double full = seconds_each(enough, 1, 2, scheduled);
    CHECK(full == 3);
    CHECK_THAT(note(layout),
               Contains(fmt::format("on {} stages stalls: a microbatch takes the time of {} "
                                    "forwards and backwards of a stage instead of one; {} "
                                    "microbatches or more keep it full",
                                    layout.stages, each / full, enough.microbatches)));
  });
  CHECK_THAT(note({.stages = 8, .microbatches = 1}), Contains("2bw with 1 microbatch on 8"));
  CHECK_THAT(note({.stages = 8, .microbatches = 6}), Contains("2bw with 6 microbatches on 8"));
}
