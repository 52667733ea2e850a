// The simulator against numbers by hand: computations, messages and their queues, and bad input.
// Not here: collectives (simulated_collectives_test) and closed forms (pipeline_times_test).
#include "parallel/simulation/simulate.h"

#include "parallel/schedules/schedule.h"
#include "tests/catch.h"
#include "tests/parallel/simulation/timelines.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

TEST_CASE("simulate: two stages, by hand", "[simulate]") {
  Costs costs;
  costs.forward = {1};
  costs.backward = {2};
  costs.step = {0.5};
  costs.latency = 0.25;
  costs.bandwidth = 400;
  costs.activation_bytes = {100};  // 0.25 + 100 / 400 = 0.5 s a message
  Timeline timeline = simulate_unverified(parse(two_stages), costs);
  CHECK(span(timeline, 0, "0F1v0") == Span(1, 2));  // while 0a0 is under way
  CHECK(span(timeline, 0, "0a0>1") == Span(1, 1.5));
  CHECK(span(timeline, 1, "0a0<0") == Span(1, 1.5));
  CHECK(span(timeline, 1, "1F0v0") == Span(1.5, 2.5));
  CHECK(span(timeline, 1, "1B0v0") == Span(3.5, 5.5));
  CHECK(span(timeline, 1, "0g0>0") == Span(5.5, 6));
  CHECK(span(timeline, 0, "0B0v0") == Span(6, 8));
  CHECK(span(timeline, 0, "0B1v0") == Span(8, 10));
  CHECK(span(timeline, 0, "0Sv1") == Span(10, 10.5));
  CHECK(timeline.makespan() == 10.5);
  CHECK(timeline.bubble() == Approx(1 - 13 / 21.0).epsilon(1e-12));
  CHECK(find(timeline, 0, "0a0>1").bytes == 100);
  CHECK(find(timeline, 1, "0a0<0").bytes == 0);
  CHECK(timeline.bytes() == 400);
}

TEST_CASE("simulate: a slow rank takes longer for what it computes, not for messages",
          "[simulate]") {
  Costs costs;
  costs.backward = {2};
  costs.step = {0.5};
  costs.latency = 0.25;
  costs.slowness = {1, 4};
  Timeline timeline = simulate_unverified(parse(two_stages), costs);
  CHECK(span(timeline, 0, "0F1v0") == Span(1, 2));
  CHECK(span(timeline, 1, "0a0<0") == Span(1, 1.25));
  CHECK(span(timeline, 1, "1F0v0") == Span(1.25, 5.25));
  CHECK(span(timeline, 1, "1B0v0") == Span(9.25, 17.25));
  CHECK(span(timeline, 1, "0g0>0") == Span(17.25, 17.5));
  CHECK(span(timeline, 0, "0B0v0") == Span(17.5, 19.5));
  CHECK(find(timeline, 1, "1Sv1").end - find(timeline, 1, "1Sv1").start == 2);
  costs.slowness = {2};  // all of them
  CHECK(find(simulate_unverified(parse(two_stages), costs), 0, "0F0v0").end == 2);
}

TEST_CASE("simulate: records follow the rows", "[simulate]") {
  Plan plan = parse(two_stages);
  Timeline timeline = simulate_unverified(plan, Costs{.backward = {1}});
  REQUIRE(timeline.ranks == 2);
  std::vector<Row> seen(2);
  for (const Record& record : timeline.records) {
    seen[record.rank].push_back(record.instruction);
    CHECK((record.lane == Lane::compute) == is_compute(record.instruction));
  }
  CHECK(seen == plan.rows);
}

TEST_CASE("simulate: a verified plan", "[simulate]") {
  Plan plan = make_plan("2bw", {.stages = 3, .width = 2, .microbatches = 4, .steps = 2});
  Timeline timeline = simulate(verify(plan), Costs{.backward = {1}});
  CHECK(timeline.makespan() == simulate_unverified(plan, Costs{.backward = {1}}).makespan());
  CHECK(timeline.records.size() > 0);
}

TEST_CASE("simulate: a queue for each direction, first in, first out", "[simulate]") {
  Costs costs{.backward = {1}};
  costs.latency = 3;
  Timeline timeline = simulate_unverified(parse(two_stages), costs);
  CHECK(span(timeline, 0, "0a0>1") == Span(1, 4));
  CHECK(span(timeline, 0, "0a1>1") == Span(4, 7));  // issued at 2
  CHECK(span(timeline, 1, "0g0>0") == Span(9, 12));
  CHECK(span(timeline, 1, "0g1>0") == Span(12, 15));

  // Nothing queues behind messages of the other direction.
  Plan both = rows("0F0v0 0a0>1 0a1<1 1F1v0\n0F1v0 0a1>0 0a0<0 1F0v0", "stages 2");
  Timeline crossing = simulate_unverified(both, costs);
  CHECK(span(crossing, 0, "0a0>1") == Span(1, 4));
  CHECK(span(crossing, 1, "0a1>0") == Span(1, 4));
}

TEST_CASE("simulate: a message waits until its recv is posted", "[simulate]") {
  Plan plan = rows("0F0v0 0a0>1\n0F1v0 0F2v0 0a0<0 0F3v0 1F0v0 1F1v0", "stages 2");
  Costs costs{.backward = {1}};
  costs.latency = 1;
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 0, "0a0>1") == Span(2, 3));  // after 0F2v0
  CHECK(span(timeline, 1, "0F3v0") == Span(2, 3));  // beside it
  CHECK(span(timeline, 1, "1F0v0") == Span(3, 4));
}

TEST_CASE("simulate: what was received is sent on when it has arrived", "[simulate]") {
  Plan plan = rows("0F0v0 0a0>1\n0a0<0 0a0>2\n0a0<1 1F0v0", "stages 2");
  Costs costs{.backward = {1}};
  costs.latency = 2;
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 1, "0a0>2") == Span(3, 5));
  CHECK(span(timeline, 2, "1F0v0") == Span(5, 6));
}

TEST_CASE("simulate: parts of a backward, recomputation and drops", "[simulate]") {
  Costs costs;
  costs.forward = {1};
  costs.backward = {4};
  Timeline timeline =
      simulate_unverified(rows("0F0v0 0Da0 0F0v0 0I0v0 0W0v0 0Sv1", "stages 1"), costs);
  CHECK(span(timeline, 0, "0Da0") == Span(1, 1));
  CHECK(span(timeline, 0, "0I0v0") == Span(2, 4));
  CHECK(span(timeline, 0, "0W0v0") == Span(4, 6));
  CHECK(timeline.bubble() == 0);
}

TEST_CASE("simulate: the two parts of a backward have costs of their own", "[simulate]") {
  Costs costs;
  costs.backward = {4};
  costs.input_part = {1, 3};  // by stage
  costs.slowness = {2};
  const Plan plan = rows("1F0v0 0F0v0 1I0v0 0I0v0 1W0v0 0W0v0 0F1v0 0B1v0", "stages 2");
  auto seconds = [&](const char* text) {
    return duration(parse_instruction(text), 0, plan, costs);
  };
  CHECK(seconds("0I0v0") == 2 * 1);
  CHECK(seconds("1I0v0") == 2 * 3);
  CHECK(seconds("1W0v0") == 2 * 2);  // not given: half of the backward
  costs.weight_part = {0.5};
  CHECK(seconds("1W0v0") == 2 * 0.5);
  CHECK(seconds("0B1v0") == 2 * 4);
  costs.weight_part = {1, 2, 3};
  CHECK_THROWS_WITH(check(costs, plan), Contains("weight_part has 3 values for 2 stages"));
}

TEST_CASE("simulate: plans that can't run are refused, not waited for", "[simulate]") {
  auto simulate_text = [](const std::string& text, const std::string& header) {
    simulate_unverified(rows(text, header), Costs{.backward = {1}});
  };
  CHECK_THROWS_WITH(simulate_text("0g0<1 0F0v0 0B0v0 0a0>1\n0a0<0 1F0v0 1B0v0 0g0>0", "stages 2"),
                    Contains("the plan blocks") && Contains("rank 0: [0g0<1]"));
  CHECK_THROWS_WITH(simulate_text("0F0v0 0a0>1\n0F1v0 1F1v0", "stages 2"),
                    Contains("never received") && Contains("[0a0>1]"));
  CHECK_THROWS_WITH(simulate_text("0F0v0\n0a0<0 1F0v0", "stages 2"),
                    Contains("sends no such message") && Contains("[0a0<0]"));
  CHECK_THROWS_WITH(simulate_text("0F0v0 0a0>1\n0a1<0 1F0v0", "stages 2"),
                    Contains("sends 0a0>1 as message 0") && Contains("[0a1<0]"));
  CHECK_THROWS_WITH(simulate_text("0B0v0 0Rv1@0\n0B1v0", "stages 1 groups 0,1"),
                    Contains("rank 1 never joins"));
  CHECK_THROWS_WITH(simulate_text("0B0v0 0Rv1@0\n0B1v0 0Rv1@0", "stages 1 groups 0"),
                    Contains("without this rank"));
  CHECK_THROWS_WITH(simulate_text("0B0v0 0Rv1@3", "stages 1"), Contains("group 3 does not exist"));
}

TEST_CASE("simulate: costs must fit the plan", "[simulate]") {
  Plan plan = parse(two_stages);
  auto with = [&](auto change) {
    Costs costs{.backward = {1}};
    change(costs);
    return simulate_unverified(plan, costs);
  };
  CHECK_THROWS_WITH(with([](Costs& c) {
                      c.forward = {1, 2, 3};
                    }),
                    Contains("forward has 3 values for 2 stages"));
  CHECK_THROWS_WITH(with([](Costs& c) { c.weight_bytes = {}; }), Contains("weight_bytes has 0"));
  CHECK_THROWS_WITH(with([](Costs& c) { c.backward = {-1}; }), Contains("backward is -1"));
  CHECK_THROWS_WITH(with([](Costs& c) { c.latency = std::numeric_limits<double>::quiet_NaN(); }),
                    Contains("latency is"));
  CHECK_THROWS_WITH(with([](Costs& c) { c.step = {std::numeric_limits<double>::infinity()}; }),
                    Contains("step is inf"));
  CHECK_THROWS_WITH(with([](Costs& c) {
                      c.slowness = {1, 1, 1.1};
                    }),
                    Contains("slowness has 3 values for 2 ranks"));
  CHECK_THROWS_WITH(with([](Costs& c) { c.slowness = {1, -1}; }), Contains("slowness is -1"));
  CHECK_THROWS_WITH(with([](Costs& c) { c.bandwidth = 0; }), Contains("bandwidth is 0"));
  CHECK(with([](Costs& c) { c.forward = {1, 2}; }).makespan() == 1 + 2 + 2 + 1 + 1 + 1);
}

TEST_CASE("timeline: nothing ran", "[simulate]") {
  CHECK(Timeline().makespan() == 0);
  CHECK(Timeline().bubble() == 0);
  CHECK(Timeline().bytes() == 0);
  CHECK(simulate_unverified(rows("0F0v0", "stages 1"), {.forward = {0}}).bubble() == 0);
}
