// Bubbles, times and bytes of pipelines in closed form: GPipe, 1F1B, 2BW and the round dance.
// Not here: what is alive, stale or sent (closed_forms_test), and chunks of stages
// (chunked_forms_test).

#include "parallel/schedules/schedule.h"
#include "tests/catch.h"
#include "tests/parallel/simulation/timelines.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

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

TEST_CASE("simulate: two updates save what a pipeline fills and drains where they overlap") {
  for (const Schedule* schedule : schedules()) {
    INFO(schedule->name);
    const auto seconds = [&](int steps) {
      const Layout layout{.stages = 4, .microbatches = schedule->cyclic ? 4 : 8, .steps = steps};
      return simulate_unverified(make_plan(schedule->name, layout), Costs()).makespan();
    };
    CHECK((2 * seconds(1) - seconds(2) >= 3) == schedule->overlaps);
  }
}

TEST_CASE("simulate: 2BW fills the pipeline once", "[simulate]") {
  for (int stages : {1, 2, 4, 6})
    for (int micros : {stages, stages + 1, 2 * stages}) {
      constexpr int steps = 4;
      INFO("D = " << stages << " M = " << micros);
      Layout layout{.stages = stages, .microbatches = micros, .steps = steps};
      Timeline timeline = simulate_unverified(make_plan("2bw", layout), Costs{.backward = {1}});
      CHECK(timeline.bubble() ==
            Approx((stages - 1.0) / (steps * micros + stages - 1)).margin(1e-12));
    }
}

TEST_CASE("simulate: an all-reduce hides behind 2BW's next microbatches", "[simulate]") {
  // On stage 0 behind (M - D + 1) (tf + tb); see tutorial 07.
  constexpr int stages = 3, micros = 5, seconds = (micros - stages + 1) * 2;
  Layout layout{.stages = stages, .width = 2, .microbatches = micros, .steps = 4};
  Plan plan = make_plan("2bw", layout);
  auto last_backward = [&](double reduction) {
    Costs costs{.backward = {1}};
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

TEST_CASE("simulate: bytes of activations and their gradients", "[simulate]") {
  for (const char* schedule : {"gpipe", "1f1b", "2bw"}) {
    Layout layout{.stages = 4, .microbatches = 6, .steps = 3};
    Costs costs{.backward = {1}};
    costs.activation_bytes = {100};
    Timeline timeline = simulate_unverified(make_plan(schedule, layout), costs);
    CHECK(timeline.bytes() == 2 * 3 * 6 * 3 * 100);  // both ways, D - 1, M, steps
  }
}

TEST_CASE("simulate: the timetables of cyclic data parallelism", "[simulate]") {
  // Forward of stage j of microbatch k at 2k + j, backward at 2k + 2N - 1 - j; N = 3.
  for (const char* text : {"cyclic_v2_data", "cyclic_v2_zero"}) {
    Timeline timeline = simulate_unverified(example(text), Costs{.backward = {1}});
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

TEST_CASE("simulate: many ranks", "[simulate]") {
  Layout layout{.stages = 300, .microbatches = 20};
  Timeline timeline = simulate_unverified(make_plan("1f1b", layout), Costs{.backward = {1}});
  CHECK(timeline.bubble() == Approx(299.0 / 319).epsilon(1e-12));
}
