// The simulator against numbers by hand and closed forms.
#include "parallel/simulation/simulate.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "parallel/schedules/schedule.h"
#include "tests/catch.h"

using namespace paragrad::parallel;
using paragrad::autograd::Error;

namespace {

/// The first record of an instruction on a rank.
const Record& find(const Timeline& timeline, int rank, const std::string& text) {
  Instruction wanted = parse_instruction(text);
  for (const Record& record : timeline.records)
    if (record.rank == rank && record.instruction == wanted) return record;
  throw Error("no " + text + " on rank " + std::to_string(rank));
}

using Span = std::pair<double, double>;
Span span(const Timeline& timeline, int rank, const std::string& text) {
  const Record& record = find(timeline, rank, text);
  return {record.start, record.end};
}

const std::string two_stages =
    "stages 2 per_step 2 steps 1 first 0 sharded 0 clip 0 stagger 0 gap 2 keep 1\n"
    "0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0g1<1 0B0v0 0B1v0 0Sv1\n"
    "0a0<0 0a1<0 1F0v0 1F1v0 1B0v0 0g0>0 1B1v0 0g1>0 1Sv1\n";

/// Rows under the important part of a header; a step has as many microbatches as the rows name.
Plan rows(const std::string& text, const std::string& header = "stages 1 groups 0,1") {
  Plan plan = parse(header + "\n" + text);
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) plan.per_step = std::max(plan.per_step, x.micro + 1);
  return plan;
}

/// A plan by hand.
Plan example(const std::string& name) {
  std::ifstream file(PARAGRAD_SOURCE_DIR "/tests/parallel/plans/" + name + ".plan");
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str());
}

Costs unit_costs() { return {}; }

}  // namespace

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
  Timeline timeline = simulate_unverified(plan, unit_costs());
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
  Timeline timeline = simulate(verify(plan), unit_costs());
  CHECK(timeline.makespan() == simulate_unverified(plan, unit_costs()).makespan());
  CHECK(timeline.records.size() > 0);
}

TEST_CASE("simulate: a queue for each direction, first in, first out", "[simulate]") {
  Costs costs;
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
  Costs costs;
  costs.latency = 1;
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 0, "0a0>1") == Span(2, 3));  // after 0F2v0
  CHECK(span(timeline, 1, "0F3v0") == Span(2, 3));  // beside it
  CHECK(span(timeline, 1, "1F0v0") == Span(3, 4));
}

TEST_CASE("simulate: what was received is sent on when it has arrived", "[simulate]") {
  Plan plan = rows("0F0v0 0a0>1\n0a0<0 0a0>2\n0a0<1 1F0v0", "stages 2");
  Costs costs;
  costs.latency = 2;
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 1, "0a0>2") == Span(3, 5));
  CHECK(span(timeline, 2, "1F0v0") == Span(5, 6));
}

TEST_CASE("simulate: a group waits for its last member and has one queue", "[simulate]") {
  Costs costs;
  costs.latency = 1;
  costs.bandwidth = 10;
  costs.weight_bytes = {20};  // N = 2: 2 (1 + 20 / (2 * 10)) = 4 s
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
    Costs costs;
    costs.weight_bytes = {5040};  // 1 to 9 divide it
    costs.bandwidth = 64;
    costs.latency = 0.5;
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
  Costs costs;
  costs.latency = 1;
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
  Costs costs;
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
  Costs costs;
  costs.latency = 3;
  Plan plan =
      rows("2Gwv0@0 0F0v0 1F0v0\n2Gwv0@0 1F1v0 0F1v0", "stages 2 sharded 3 tied 0,1 groups 0,1");
  Timeline timeline = simulate_unverified(plan, costs);
  CHECK(span(timeline, 0, "0F0v0") == Span(3, 4));
  CHECK(span(timeline, 1, "1F1v0") == Span(3, 4));
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

TEST_CASE("simulate: the tied stage costs as the last in the lists", "[simulate]") {
  Costs costs;
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

TEST_CASE("simulate: the timetables of cyclic data parallelism", "[simulate]") {
  // Forward of stage j of microbatch k at 2k + j, backward at 2k + 2N - 1 - j; N = 3.
  for (const char* text : {"cyclic_v2_data", "cyclic_v2_zero"}) {
    Timeline timeline = simulate_unverified(example(text), unit_costs());
    int checked = 0;
    for (const Record& record : timeline.records) {
      const Instruction& x = record.instruction;
      if (x.op == Op::forward) CHECK(record.start == 2 * x.micro + x.stage);
      if (x.op == Op::backward) CHECK(record.start == 2 * x.micro + 5 - x.stage);
      checked += x.op == Op::forward || x.op == Op::backward;
    }
    CHECK(checked == 36);
  }
}

TEST_CASE("simulate: ZeRO 3 gathers beside forwards", "[simulate]") {
  Costs costs;
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

TEST_CASE("simulate: bubble of GPipe and 1F1B is (D-1)/(M+D-1)", "[simulate]") {
  int plans = 0;
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int stages = 1; stages <= 8; ++stages)
      for (int micros = 1; micros <= 9; ++micros)
        for (int width = 1; width <= 2; ++width) {
          INFO(schedule << " D = " << stages << " M = " << micros << " W = " << width);
          Layout layout{.stages = stages, .width = width, .microbatches = micros, .steps = 2};
          Costs costs;
          costs.forward = {3};
          costs.backward = {5};
          Timeline timeline = simulate_unverified(make_plan(schedule, layout), costs);
          CHECK(timeline.makespan() == 2 * (micros + stages - 1) * 8);
          CHECK(timeline.bubble() == Approx((stages - 1.0) / (micros + stages - 1)).margin(1e-12));
          ++plans;
        }
  CHECK(plans >= 200);
}

TEST_CASE("simulate: latency is paid once a hop in GPipe", "[simulate]") {
  for (int stages : {1, 2, 4, 7})
    for (int micros : {1, 3, 8}) {
      Layout layout{.stages = stages, .microbatches = micros};
      Costs costs;
      costs.forward = {4};
      costs.backward = {8};
      costs.latency = 0.5;
      Timeline timeline = simulate_unverified(make_plan("gpipe", layout), costs);
      CHECK(timeline.makespan() == (micros + stages - 1) * 12 + 2 * (stages - 1) * 0.5);
    }
}

TEST_CASE("simulate: 2BW fills the pipeline once", "[simulate]") {
  for (int stages : {1, 2, 4, 6})
    for (int micros : {stages, stages + 1, 2 * stages}) {
      constexpr int steps = 4;
      INFO("D = " << stages << " M = " << micros);
      Layout layout{.stages = stages, .microbatches = micros, .steps = steps};
      Timeline timeline = simulate_unverified(make_plan("2bw", layout), unit_costs());
      CHECK(timeline.bubble() ==
            Approx((stages - 1.0) / (steps * micros + stages - 1)).margin(1e-12));
    }
}

TEST_CASE("simulate: bytes of activations and their gradients", "[simulate]") {
  for (const char* schedule : {"gpipe", "1f1b", "2bw"}) {
    Layout layout{.stages = 4, .microbatches = 6, .steps = 3};
    Costs costs;
    costs.activation_bytes = {100};
    Timeline timeline = simulate_unverified(make_plan(schedule, layout), costs);
    CHECK(timeline.bytes() == 2 * 3 * 6 * 3 * 100);  // both ways, D - 1, M, steps
  }
}

TEST_CASE("simulate: an all-reduce hides behind 2BW's next microbatches", "[simulate]") {
  // On stage 0 behind (M - D + 1) (tf + tb); see tutorial 07.
  constexpr int stages = 3, micros = 5, seconds = (micros - stages + 1) * 2;
  Layout layout{.stages = stages, .width = 2, .microbatches = micros, .steps = 4};
  Plan plan = make_plan("2bw", layout);
  auto last_backward = [&](double reduction) {
    Costs costs;
    costs.weight_bytes = {static_cast<std::int64_t>(1000 * reduction)};  // N = 2: as long as a send
    costs.bandwidth = 1000;
    double end = 0;
    for (const Record& record : simulate_unverified(plan, costs).records)
      if (record.instruction.op == Op::backward) end = std::max(end, record.end);
    return end;
  };
  CHECK(last_backward(seconds) == last_backward(0));
  CHECK(last_backward(seconds + 0.5) > last_backward(0));
}

TEST_CASE("simulate: many ranks", "[simulate]") {
  Layout layout{.stages = 300, .microbatches = 20};
  Timeline timeline = simulate_unverified(make_plan("1f1b", layout), unit_costs());
  CHECK(timeline.bubble() == Approx(299.0 / 319).epsilon(1e-12));
}

TEST_CASE("simulate: plans that can't run are refused, not waited for", "[simulate]") {
  auto simulate_text = [](const std::string& text, const std::string& header) {
    simulate_unverified(rows(text, header), Costs());
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
    Costs costs;
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
