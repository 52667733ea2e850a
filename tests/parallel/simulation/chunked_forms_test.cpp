// Interleaved and zero-bubble pipelines: their papers' formulas as equalities.
// Not here: pipelines of whole stages and whole backwards (simulate_test.cpp,
// closed_forms_test.cpp).

#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

/// Seconds of a stage's forward, and of the parts of its backward.
struct Parts {
  double f, i, w;
};
const std::vector<Parts> all_parts{{1, 1, 1}, {2, 2, 1},   {3, 2, 2},      {1, 1, 0},
                                   {2, 3, 1}, {1, 2, 2.5}, {1.5, 1, 1.25}, {3, 4, 5}};

Costs costs_of(const Parts& parts) {
  Costs costs{.backward = {1}};
  costs.computation = [parts](const Instruction& x, int, int) {
    if (begins_pass(x)) return parts.f;
    if (!goes_back(x)) return 0.0;
    return (makes_input_gradient(x) ? parts.i : 0) + (adds_gradient(x) ? parts.w : 0);
  };
  return costs;
}

double makespan(const std::string& schedule, Layout layout, const Parts& parts, int steps) {
  layout.steps = steps;
  return simulate_unverified(make_plan(schedule, layout), costs_of(parts)).makespan();
}

/// What a rank computes in an update.
double work(const std::string& schedule, const Layout& asked, const Parts& parts) {
  const Layout layout = with_defaults(find_schedule(schedule), asked);
  return layout.chunks * layout.microbatches * (parts.f + parts.i + parts.w) / layout.copies();
}

/// The idle seconds of a plan of one update, from its begin on the first rank to its end on the
/// last.
double idle_alone(const std::string& schedule, const Layout& layout, const Parts& parts) {
  return makespan(schedule, layout, parts, 1) - work(schedule, layout, parts);
}

/// The idle seconds of an update in the middle of a run, where ranks that are done with it can
/// begin the next one.
double idle_between(const std::string& schedule, const Layout& layout, const Parts& parts) {
  return makespan(schedule, layout, parts, 4) - makespan(schedule, layout, parts, 3) -
         work(schedule, layout, parts);
}

std::vector<int> peaks(const std::string& schedule, const Layout& layout) {
  return verify(make_plan(schedule, layout)).facts().peak_microbatches;
}

int most(const std::vector<int>& values) { return *std::ranges::max_element(values); }

}  // namespace

TEST_CASE("interleaved: V stages on a rank divide the time to fill by V, and send V times as much",
          "[forms]") {
  for (int depth : {2, 3, 4, 8})
    for (int chunks : {1, 2, 3, 4})
      for (int rounds : {1, 2, 4})
        for (double backward : {1, 2}) {
          const Layout layout{
              .stages = depth * chunks, .microbatches = rounds * depth, .chunks = chunks};
          CAPTURE(depth, chunks, rounds, backward);
          const VerifiedPlan plan = verify(make_plan("interleaved", layout));
          const double idle = depth - 1, work = chunks * layout.microbatches;
          Costs costs;
          costs.backward = {backward};
          CHECK(simulate(plan, costs).bubble() == Approx(idle / (work + idle)));
          CHECK(plan.facts().messages.at("a") == (chunks * depth - 1) * layout.microbatches);
          if (chunks == 1)
            CHECK(plan.plan().rows ==
                  make_plan("1f1b", {.stages = depth, .microbatches = layout.microbatches}).rows);
        }
}

TEST_CASE("looped-bfs: the bubble of interleaved, and every microbatch of every stage kept",
          "[forms]") {
  for (Placement placement : {Placement::loop, Placement::v})
    for (int depth : {2, 4})
      for (int chunks : {2, 3})
        for (int microbatches : {depth, depth + 1, 3 * depth}) {
          const Layout layout{.stages = depth * chunks,
                              .microbatches = microbatches,
                              .chunks = chunks,
                              .placement = placement};
          CAPTURE(depth, chunks, microbatches);
          const VerifiedPlan plan = verify(make_plan("looped-bfs", layout));
          const double idle = depth - 1, work = chunks * microbatches;
          if (placement == Placement::loop)
            CHECK(simulate(plan, {.backward = {1}}).bubble() == Approx(idle / (work + idle)));
          CHECK(most(plan.facts().peak_microbatches) == chunks * microbatches);
        }
}

TEST_CASE("zb-h1: idle (D-1) max(tF + tI - tW, tF, tI), in the memory of 1F1B", "[forms]") {
  for (int depth : {2, 3, 4, 8})
    for (int microbatches : {depth, depth + 1, 3 * depth}) {
      const Layout layout{.stages = depth, .microbatches = microbatches};
      for (const Parts& t : all_parts) {
        CAPTURE(depth, microbatches, t.f, t.i, t.w);
        const double idle = (depth - 1) * std::max({t.f + t.i - t.w, t.f, t.i});
        CHECK(idle_alone("zb-h1", layout, t) == Approx(idle));
      }
      CHECK(peaks("zb-h1", layout) == std::vector<int>(depth, depth));
    }
}

TEST_CASE("zb-h2: idle (D-1) (tF + tI - 2 tW) where that is positive, with 2D - 1 microbatches",
          "[forms]") {
  for (int depth : {2, 3, 4, 8})
    for (int microbatches : {2 * depth - 1, 2 * depth, 4 * depth}) {
      const Layout layout{.stages = depth, .microbatches = microbatches};
      for (const Parts& t : all_parts) {
        CAPTURE(depth, microbatches, t.f, t.i, t.w);
        const double idle = (depth - 1) * (t.f + t.i - 2 * t.w);
        if (idle >= 0) CHECK(idle_between("zb-h2", layout, t) == Approx(idle).margin(1e-9));
      }
      CHECK(peaks("zb-h2", layout) == std::vector<int>(depth, 2 * depth - 1));
    }
}

TEST_CASE("zb-v: no bubble if forwards and both parts take equally long, in the memory of 1F1B",
          "[forms]") {
  for (int depth : {1, 2, 3, 4, 8})
    for (int microbatches : {2 * depth - 1, 2 * depth, 4 * depth}) {
      const Layout layout{.stages = 2 * depth, .microbatches = microbatches};
      CAPTURE(depth, microbatches);
      CHECK(idle_between("zb-v", layout, {1, 1, 1}) == Approx(0).margin(1e-9));
      CHECK(peaks("zb-v", layout) == std::vector<int>(depth, 2 * depth));  // half stages
    }
}

TEST_CASE("dualpipe: idle (D-1) (tF + tI - tW) folded, (D/2-1) of them with two copies",
          "[forms]") {
  for (int depth : {2, 4, 8})
    for (int microbatches : {2 * depth, 4 * depth}) {
      const Layout folded{.stages = 2 * depth, .microbatches = microbatches};
      const Layout twice{.stages = depth, .microbatches = microbatches};
      CAPTURE(depth, microbatches);
      for (const Parts& t : {Parts{1, 1, 1}, Parts{2, 2, 1}, Parts{2, 1, 1}, Parts{4, 3, 2}}) {
        CAPTURE(t.f, t.i, t.w);  // tW <= tI <= tF <= tI + tW
        const double idle = t.f + t.i - t.w;
        CHECK(idle_alone("dualpipe-v", folded, t) == Approx((depth - 1) * idle));
        CHECK(idle_alone("dualpipe", twice, t) == Approx((depth / 2 - 1) * idle));
      }
      CHECK(peaks("dualpipe-v", folded) == std::vector<int>(depth, 2 * depth + 1));
      CHECK(peaks("dualpipe", twice) == std::vector<int>(depth, depth + 1));
    }
  // DeepSeek counts F&B + B - 3W for each such rank. With F&B = F + B, as a forward and a backward
  // are cells of their own here, and with equal parts, that is twice as much.
  constexpr double f = 1, b = 2, w = 1;
  CHECK(idle_alone("dualpipe-v", {.stages = 8, .microbatches = 8}, {f, b - w, w}) ==
        Approx((4 - 1) * (f + b + b - 3 * w) / 2));
}

TEST_CASE("a norm ends what a zero bubble gains: all ranks begin an update together", "[forms]") {
  for (const char* schedule : {"zb-h2", "zb-v"})
    for (int depth : {2, 4}) {
      const bool folded = schedule == std::string("zb-v");
      Layout layout{.stages = (folded ? 2 : 1) * depth, .microbatches = 4 * depth};
      CHECK(idle_between(schedule, layout, {1, 1, 1}) == Approx(0).margin(1e-9));
      layout.clip = true;
      CHECK(idle_between(schedule, layout, {1, 1, 1}) == Approx(depth - 1));
    }
}
