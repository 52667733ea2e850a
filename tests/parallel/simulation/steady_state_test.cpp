// Endless plans in time: the moments of bars, the steady state against closed forms, and the bars
// of drawings. Not here: other plans in time (simulate_test) and other drawings (draw_svg_test).
#include "parallel/simulation/variants.h"

#include "tests/parallel/support/drawing.h"

using namespace plangrad::parallel;
using plangrad::tests::count;

namespace {

Plan endless_plan(const std::string& schedule, const Layout& layout) {
  const auto plan = make_endless(schedule, layout);
  REQUIRE(plan);
  return *plan;
}

Costs twice_back() {
  Costs costs;
  costs.backward = {2};
  return costs;
}

}  // namespace

TEST_CASE("steady state: PipeDream-2BW has no bubble, and flushes have that of their formula",
          "[endless]") {
  for (int stages : {2, 4}) {
    const Layout layout{.stages = stages, .microbatches = 6};
    const SteadyState delayed = steady_state(verify(endless_plan("2bw", layout)), twice_back());
    CHECK(delayed.seconds == Approx(6 * 3));
    CHECK(delayed.bubble == 0);
    for (const char* flush : {"1f1b", "gpipe"}) {
      const SteadyState empties = steady_state(verify(endless_plan(flush, layout)), twice_back());
      CHECK(empties.seconds == Approx((6 + stages - 1) * 3));
      CHECK(empties.bubble == Approx((stages - 1.0) / (6 + stages - 1)));
    }
  }
}

TEST_CASE("steady state: a body of several updates, and slow steps", "[endless]") {
  const Plan model = endless_plan("cyclic-v2", {.stages = 3, .setting = Setting::model});
  CHECK(model.period == 2);
  CHECK(steady_state(verify(model), Costs{.backward = {1}}).seconds ==
        Approx(2 * 3));  // 2N time steps an update
  Costs slow = twice_back();
  slow.step = {5};
  const Plan pipeline = endless_plan("1f1b", {.stages = 1, .microbatches = 2});
  CHECK(steady_state(verify(pipeline), slow).seconds == Approx(2 * 3 + 5));
  CHECK(steady_state(verify(pipeline), slow).bubble == 0);
  Costs free;
  free.forward = free.backward = {0};
  CHECK(steady_state(verify(pipeline), free).seconds == 0);
  const VerifiedPlan once = verify(make_plan("1f1b", {.stages = 2, .microbatches = 2}));
  CHECK_THROWS_WITH(steady_state(once, free), Contains("a plan without a period"));
}

TEST_CASE("two bodies: a bar stands where its rank continues", "[endless]") {
  const Plan plan = endless_plan("2bw", {.stages = 3, .microbatches = 3});
  const Timeline timeline = simulate_two_bodies(plan, twice_back());
  CHECK(timeline.makespan() == simulate_unverified(unrolled(plan, 2), twice_back()).makespan());
  // The steps of the ranks, which take no time, are the first cells of bodies.
  CHECK(timeline.bars ==
        std::vector<std::vector<double>>{{15, 24, 33}, {13, 22, 31}, {11, 20, 29}});

  const Plan all_body =
      parse("stages 1 per_step 1 steps 1 period 1\n| 0F0v0 0B0v0 0Sv1 |\n| | -\n");
  const Timeline whole = simulate_two_bodies(all_body, twice_back());
  CHECK(whole.bars == std::vector<std::vector<double>>{{0, 3, 6}, {0, 0, 0}});

  const Plan once = make_plan("1f1b", {.stages = 2, .microbatches = 2});
  CHECK(simulate_two_bodies(once, Costs{.backward = {1}}).bars.empty());
}

TEST_CASE("drawings of endless plans have their bars", "[endless]") {
  const Plan plan = parse(
      "stages 1 per_step 1 steps 3 keep 2 period 1\n"
      "0F0v0 0B0v0 | 0Sv1 0F1v0 0B1v0 | 0Sv2 0F2v1 0B2v1 0Sv3\n");
  CHECK(draw_text(simulate_two_bodies(plan, Costs{.backward = {1}})) ==
        "rank 0  0F0 0B0|0F1 0B1|0F2 0B2|0F3 0B3\n");
  const Plan all_body = parse("stages 1 per_step 1 steps 1 period 1\n| 0F0v0 0B0v0 0Sv1 |\n");
  CHECK(draw_text(simulate_two_bodies(all_body, Costs{.backward = {1}})) ==
        "rank 0 |0F0 0B0|0F1 0B1 |\n");

  const Plan ranks = endless_plan("2bw", {.stages = 3, .microbatches = 3});
  const std::string figure = draw_svg(simulate_two_bodies(ranks, Costs{.backward = {1}}));
  CHECK(count(figure, "<path class=\"repeat\"") == 3 * 3);
  CHECK(count(figure, ">head</text>") == 1);
  CHECK(count(figure, ">body</text>") == 2);
  CHECK(count(figure, ">tail</text>") == 1);
  CHECK_THAT(figure, Contains("<title>rank 2, between head and body</title>"));
  const std::string once =
      draw_svg(simulate_unverified(unrolled(ranks, 2), Costs{.backward = {1}}));
  CHECK(count(once, "repeat") == 0);
  CHECK(count(once, ">body</text>") == 0);
}
