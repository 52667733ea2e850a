// Breakdowns and critical paths of timelines by hand, and sums over every schedule.
#include "parallel/simulation/breakdown.h"

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/simulation/timelines.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/plan_cases.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

struct Ran {
  int rank;
  const char* instruction;
  double start, end;
};

Timeline timeline_of(const Plan& plan, const std::vector<Ran>& all) {
  Timeline timeline{plan.ranks(), {}};
  for (const auto& [rank, text, start, end] : all) {
    const Instruction x = parse_instruction(text);
    timeline.records.push_back({rank, operation(x).lane(), x, start, end});
  }
  return with_cells(plan, timeline);
}

void check_parts(const TimeParts& parts, const TimeParts& expected) {
  CHECK(parts.compute == Approx(expected.compute).margin(1e-12));
  CHECK(parts.update == Approx(expected.update).margin(1e-12));
  CHECK(parts.waiting == Approx(expected.waiting).margin(1e-12));
  CHECK(parts.point_to_point == Approx(expected.point_to_point).margin(1e-12));
  CHECK(parts.collective == Approx(expected.collective).margin(1e-12));
}

std::string text_of(const CriticalPath& path, const Timeline& timeline) {
  std::string text;
  for (int record : path.records)
    text += (text.empty() ? "" : " ") + print(timeline.records.at(record).instruction);
  return text;
}

const char* const replicas = "stages 1 per_step 2 steps 1 groups 0,1\n";

}  // namespace

TEST_CASE("breakdown: waiting for a computation, then for its message", "[breakdown]") {
  const Plan plan = parse(
      "stages 2 per_step 1 steps 1\n"
      "0F0v0 0a0>1 0g0<1 0B0v0 0Sv1\n"
      "0a0<0 1F0v0 1B0v0 0g0>0 1Sv1\n");
  // A measured record of a message begins when its end is issued. 0a0 is under way from 2, when
  // rank 0 has computed it, to 3.5 at rank 1, which begins half a second later. 0g0 is under way
  // from 9 to 11 at rank 0. Rank 1's send of it ends after its last computation.
  const Timeline timeline = timeline_of(plan, {{0, "0F0v0", 0, 2},
                                               {0, "0B0v0", 11, 14},
                                               {0, "0Sv1", 14, 15},
                                               {0, "0a0>1", 2, 3},
                                               {0, "0g0<1", 2, 11},
                                               {1, "1F0v0", 4, 6},
                                               {1, "1B0v0", 6, 9},
                                               {1, "1Sv1", 9, 9.5},
                                               {1, "0a0<0", 0, 3.5},
                                               {1, "0g0>0", 9, 10}});
  const Breakdown time = breakdown(plan, timeline);
  CHECK(time.makespan == 15);
  check_parts(time.ranks[0], {5, 1, /*2 to 9*/ 7, /*9 to 11*/ 2, 0});
  check_parts(time.ranks[1], {5, 0.5, /*0 to 2, 3.5 to 4, from 9.5 on*/ 8, /*2 to 3.5*/ 1.5, 0});
  check_parts(time.all(), {10, 1.5, 15, 3.5, 0});
  CHECK(time.ranks[0].forward == 2);
  CHECK(time.ranks[0].other == 0);
  CHECK(time.ranks[1].other == /*3.5 to 4*/ 0.5 + /*9.5 on*/ 5.5);
  CHECK(time.all().other == 6);

  const CriticalPath path = critical_path(plan, timeline);
  CHECK(text_of(path, timeline) == "0F0v0 0a0<0 1F0v0 1B0v0 0g0<1 0B0v0 0Sv1");
  check_parts(path.time, {10, 1, 0.5, 3.5, 0});
  CHECK(path.computations == 5);
  CHECK(path.messages == 2);
  CHECK(path.collectives == 0);
  CHECK(path.ranks == 2);
}

TEST_CASE("breakdown: waiting for a member of the group, then for the reduction", "[breakdown]") {
  const Plan plan = parse(std::string(replicas) +
                          "0F0v0 0B0v0 0Rv1@0 0Sv1\n"
                          "0F1v0 0B1v0 0Rv1@0 0Sv1\n");
  const Timeline timeline = timeline_of(plan, {{0, "0F0v0", 0, 1},
                                               {0, "0B0v0", 1, 3},
                                               {0, "0Sv1", 8, 9},
                                               {0, "0Rv1@0", 3, 8},
                                               {1, "0F1v0", 0, 2},
                                               {1, "0B1v0", 2, 5},
                                               {1, "0Sv1", 7, 8},
                                               {1, "0Rv1@0", 5, 7}});
  const Breakdown time = breakdown(plan, timeline);
  check_parts(time.ranks[0], {3, 1, /*3 to 5*/ 2, 0, /*5 to 8*/ 3});
  check_parts(time.ranks[1], {5, 1, /*8 to 9*/ 1, 0, /*5 to 7*/ 2});
  CHECK(text_of(critical_path(plan, timeline), timeline) == "0F1v0 0B1v0 0Rv1@0 0Sv1");
}

TEST_CASE("breakdown: a collective beside a computation is hidden, and the next one waits for it",
          "[breakdown]") {
  const Plan plan = parse(
      "stages 2 per_step 1 steps 1 groups 0\n"
      "0F0v0 1F0v0 1B0v0 1Rv1@0 0B0v0 0Rv1@0 1Sv1 0Sv1\n");
  const Timeline timeline = timeline_of(plan, {{0, "0F0v0", 0, 1},
                                               {0, "1F0v0", 1, 2},
                                               {0, "1B0v0", 2, 4},
                                               {0, "0B0v0", 4, 5},
                                               {0, "1Sv1", 7, 8},
                                               {0, "0Sv1", 10, 11},
                                               {0, "1Rv1@0", 4, 7},
                                               {0, "0Rv1@0", 5, 10}});
  check_parts(breakdown(plan, timeline).ranks[0], {5, 2, 0, 0, /*5 to 7, 8 to 10*/ 4});
  const CriticalPath path = critical_path(plan, timeline);
  CHECK(text_of(path, timeline) == "0F0v0 1F0v0 1B0v0 1Rv1@0 0Rv1@0 0Sv1");
  check_parts(path.time, {4, 1, 0, 0, 6});
  CHECK(path.collectives == 2);
}

TEST_CASE("breakdown: a message begins once both ends are issued", "[breakdown]") {
  const Plan plan = parse("stages 2 per_step 1 steps 1\n0F0v0 0a0>1\n0a0<0 1F0v0\n");
  const std::vector<Ran> ran{{0, "0F0v0", 0, 2}, {0, "0a0>1", 3, 5}, {1, "1F0v0", 5, 6}};
  auto received = [&](double issued) {
    std::vector<Ran> all = ran;
    all.push_back({1, "0a0<0", issued, 5});
    return breakdown(plan, timeline_of(plan, all)).ranks[1];
  };
  check_parts(received(0), {1, 0, /*0 to 3*/ 3, 2, 0});
  check_parts(received(4), {1, 0, /*0 to 4*/ 4, 1, 0});
}

TEST_CASE("breakdown: a message waits for the one that brings its value", "[breakdown]") {
  // The norm is issued with the reduction, but counts the finished sum. Then rank 1 gets the
  // weights from rank 0, which has gathered them: 6 to 8 is the gather's, 8 to 9 the message's.
  const Plan clipped = parse(
      "stages 1 per_step 1 steps 1 clip 1 groups 0\n"
      "0F0v0 0B0v0 0Rv1@0 Rnv1@0 0Sv1\n");
  const Timeline one = timeline_of(clipped, {{0, "0F0v0", 0, 1},
                                             {0, "0B0v0", 1, 3},
                                             {0, "0Sv1", 6.5, 7},
                                             {0, "0Rv1@0", 3, 6},
                                             {0, "Rnv1@0", 3, 6.5}});
  check_parts(breakdown(clipped, one).ranks[0], {3, 0.5, 0, 0, 3.5});

  const Plan brought = parse(
      "stages 1 per_step 1 steps 1 groups 0\n"
      "0Gwv0@0 0wv0>1\n"
      "0wv0<0 0F0v0\n");
  const Timeline two = timeline_of(
      brought,
      {{0, "0Gwv0@0", 6, 8}, {0, "0wv0>1", 6, 9}, {1, "0wv0<0", 0, 9}, {1, "0F0v0", 9, 10}});
  check_parts(breakdown(brought, two).ranks[1], {1, 0, /*0 to 6*/ 6, 1, 2});
}

TEST_CASE("breakdown: a message waits for the one before it between the same ranks",
          "[breakdown]") {
  const Plan plan = parse(
      "stages 2 per_step 2 steps 1\n"
      "0F0v0 0a0>1 0F1v0 0a1>1\n"
      "0a0<0 0a1<0 1F0v0 1F1v0\n");
  const Timeline timeline = timeline_of(plan, {{0, "0F0v0", 0, 1},
                                               {0, "0F1v0", 1, 2},
                                               {0, "0a0>1", 1, 5},
                                               {0, "0a1>1", 2, 9},
                                               {1, "1F0v0", 5, 6},
                                               {1, "1F1v0", 9, 10},
                                               {1, "0a0<0", 0, 5},
                                               {1, "0a1<0", 0, 9}});
  check_parts(breakdown(plan, timeline).ranks[1], {2, 0, 1, 7, 0});
  CHECK(text_of(critical_path(plan, timeline), timeline) == "0F0v0 0a0>1 0a1<0 1F1v0");
}

TEST_CASE("breakdown: what a drop waits for holds up the next computation", "[breakdown]") {
  const Plan plan = parse(
      "stages 2 per_step 1 steps 1 sharded 2 groups 0\n"
      "0F0v0 1F0v0 1B0v0 1Rv1@0 1Dpv1 0B0v0\n");
  const std::vector<Ran> measured{{0, "0F0v0", 0, 1},
                                  {0, "1F0v0", 1, 2},
                                  {0, "1B0v0", 2, 4},
                                  {0, "0B0v0", 7, 8},
                                  {0, "1Rv1@0", 4, 7}};
  check_parts(breakdown(plan, timeline_of(plan, measured)).ranks[0], {5, 0, 0, 0, 3});
  std::vector<Ran> simulated = measured;
  simulated.push_back({0, "1Dpv1", 7, 7});
  check_parts(breakdown(plan, timeline_of(plan, simulated)).ranks[0], {5, 0, 0, 0, 3});
}

TEST_CASE("breakdown: at the end a rank waits for what comes to it", "[breakdown]") {
  const Plan plan = parse(
      "stages 1 per_step 1 steps 1 sharded 1 groups 0\n"
      "0F0v0 0B0v0 0Rv1@0 0Sv1 0Gwv1@0\n");
  const Timeline timeline = timeline_of(plan, {{0, "0F0v0", 0, 1},
                                               {0, "0B0v0", 1, 3},
                                               {0, "0Sv1", 5, 6},
                                               {0, "0Rv1@0", 3, 5},
                                               {0, "0Gwv1@0", 6, 8}});
  check_parts(breakdown(plan, timeline).ranks[0], {3, 1, 0, 0, /*3 to 5, 6 to 8*/ 4});
  CHECK(critical_path(plan, timeline).collectives == 2);
}

TEST_CASE("breakdown: of two equal instructions of a row, the first ran first", "[breakdown]") {
  const Plan plan = parse("stages 1 per_step 1 steps 1\n0F0v0 0Da0 0F0v0 0B0v0\n");
  const Timeline timeline =
      timeline_of(plan, {{0, "0F0v0", 0, 1}, {0, "0F0v0", 3, 4}, {0, "0B0v0", 4, 6}});
  check_parts(breakdown(plan, timeline).ranks[0], {4, 0, 2, 0, 0});
}

TEST_CASE("breakdown: a timeline of another plan is refused", "[breakdown]") {
  const Plan plan = parse("stages 1 per_step 1 steps 1\n0F0v0 0B0v0 0Sv1\n");
  Timeline timeline =
      timeline_of(plan, {{0, "0F0v0", 0, 1}, {0, "0B0v0", 1, 2}, {0, "0Sv1", 2, 3}});
  CHECK_NOTHROW(breakdown(plan, timeline));
  timeline.ranks = 2;
  CHECK_THROWS_WITH(breakdown(plan, timeline), Contains("1 rank, its timeline 2"));
  timeline.ranks = 1;
  timeline.records.push_back(timeline.records[0]);
  CHECK_THROWS_WITH(breakdown(plan, timeline), Contains("0F0v0 of rank 0 as cell 0 more often"));
  timeline.records.resize(2);
  CHECK_THROWS_WITH(critical_path(plan, timeline), Contains("lacks 0Sv1 of rank 0"));
  CHECK(critical_path(Plan{}, {}).records.empty());
}

namespace {

/// Costs in which everything takes time, and no two sums of them are equal by accident.
Costs uneven(const Plan& plan) {
  Costs costs;
  costs.forward = {1};
  costs.backward = {2.3};
  costs.step = {0.37};
  costs.latency = 0.11;
  costs.bandwidth = 1000;
  costs.activation_bytes = {170};
  costs.weight_bytes = {530};
  costs.slowness.clear();
  for (int rank = 0; rank < plan.ranks(); ++rank) costs.slowness.push_back(1 + 0.07 * (rank % 3));
  return costs;
}

/// Parts add up to the time of each rank, idle parts to the bubble; the path has no gaps.
void check_sums(const VerifiedPlan& plan, const Costs& costs) {
  const Timeline timeline = simulate(plan, costs);
  const double makespan = timeline.makespan();
  const Breakdown time = breakdown(plan.plan(), timeline);
  for (const TimeParts& parts : time.ranks) {
    CHECK(parts.total() == Approx(makespan).epsilon(1e-12));
    for (double part :
         {parts.compute, parts.update, parts.waiting, parts.point_to_point, parts.collective})
      CHECK(part >= 0);
  }
  const TimeParts all = time.all();
  CHECK(all.total() == Approx(timeline.ranks * makespan).epsilon(1e-12));
  CHECK(all.waiting + all.point_to_point + all.collective ==
        Approx(timeline.bubble() * timeline.ranks * makespan).margin(1e-9 * makespan));

  const CriticalPath path = critical_path(plan.plan(), timeline);
  CHECK(path.time.total() == Approx(makespan).epsilon(1e-12));
  CHECK(path.time.waiting == Approx(0).margin(1e-9 * makespan));
  double now = 0;
  for (int record : path.records) {
    CHECK(timeline.records[record].start == Approx(now).margin(1e-9 * makespan));
    now = timeline.records[record].end;
  }
  CHECK(now == makespan);
}

std::vector<VerifiedPlan> plans_of_all_schedules() {
  std::vector<VerifiedPlan> all;
  for (PlanCase& good : good_plans()) all.push_back(verify(good.plan));
  for (const Schedule* schedule : schedules()) {
    Layout layout{.stages = 4, .steps = 3};
    if (!schedule->cyclic) layout.width = 2, layout.microbatches = 4;
    all.push_back(verify(make_plan(schedule->name, layout)));
  }
  for (int zero : {1, 2, 3})
    all.push_back(verify(make_plan("data", {.stages = 3, .width = 2, .steps = 2, .zero = zero})));
  return all;
}

}  // namespace

TEST_CASE("breakdown: parts add up on every schedule", "[breakdown]") {
  for (const VerifiedPlan& plan : plans_of_all_schedules()) {
    INFO(print(plan.plan()));
    check_sums(plan, uneven(plan.plan()));
    check_sums(plan, {});
  }
}

TEST_CASE("breakdown: without costs of messages, a pipeline's bubble is all waiting",
          "[breakdown]") {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const Plan plan = make_plan(schedule, {.stages = 4, .microbatches = 8});
    Costs costs;
    costs.backward = {2};
    // (D - 1) forwards and backwards of 3 s are idle on each of the 4 ranks.
    check_parts(breakdown(plan, simulate_unverified(plan, costs)).all(), {96, 0, 36, 0, 0});
  }
}

TEST_CASE("breakdown: a norm that needs no message has no record, and is waited for all the same",
          "[breakdown]") {
  const Plan plan = parse(
      "stages 2 per_step 1 steps 1 clip 1 groups 0\n"
      "0F0v0 1F0v0 1B0v0 1Rv1@0 0B0v0 0Rv1@0 Rnv1@0 1Sv1 0Sv1\n");
  std::vector<Ran> all{{0, "0F0v0", 0, 1},  {0, "1F0v0", 1, 2}, {0, "1B0v0", 2, 4},
                       {0, "0B0v0", 4, 5},  {0, "1Sv1", 9, 10}, {0, "0Sv1", 10, 11},
                       {0, "1Rv1@0", 4, 6}, {0, "0Rv1@0", 5, 9}};
  // The first update needs stage 1's sum, which is there at 6, and the norm of both sums.
  check_parts(breakdown(plan, timeline_of(plan, all)).ranks[0], {5, 2, 0, 0, /*5 to 9*/ 4});
  all.push_back({0, "Rnv1@0", 9, 9});
  check_parts(breakdown(plan, timeline_of(plan, all)).ranks[0], {5, 2, 0, 0, 4});
}
