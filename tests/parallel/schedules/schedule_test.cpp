// Schedules: plans as text that a person can check, what options change, and what is refused.
// Not here: what follows from plans (closed_forms_test.cpp), and running them.
#include "parallel/schedules/schedule.h"
#include "parallel/lowering/lower.h"

#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/sanitized.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

using Cell = std::vector<int>;  // rank, stage, microbatch, version; a backward's microbatch is < 0

/// Who computes what on which weights.
std::multiset<Cell> computations(const Plan& plan) {
  std::multiset<Cell> cells;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (const Instruction& x : plan.rows[rank])
      if (x.op == Op::forward || x.op == Op::backward)
        cells.insert({rank, x.stage, x.op == Op::forward ? x.micro : ~x.micro, x.version});
  return cells;
}

std::multiset<int> forwards(const Row& row, int stage) {
  std::multiset<int> micros;
  for (const Instruction& x : row)
    if (x.op == Op::forward && x.stage == stage) micros.insert(x.micro);
  return micros;
}

}  // namespace

TEST_CASE("schedules: plans as they were checked by hand", "[schedule]") {
  for (const char* name : {"data", "gpipe", "1f1b", "pipedream"}) {
    Layout layout{.stages = 2, .microbatches = 2, .steps = 2};
    if (name == std::string("data")) layout.width = 2;
    CHECK(print(make_plan(name, layout)) == golden(name));
  }
  CHECK(print(make_plan("2bw", {.stages = 3, .microbatches = 3, .steps = 3})) == golden("2bw"));
}

TEST_CASE("schedules: each knows the ranks of its plans", "[schedule]") {
  for (const Schedule* schedule : schedules())
    for (const auto& [name, setting] : settings())
      for (int stages : {1, 2, 4})
        for (int width : {1, 3}) {
          Layout layout{.stages = stages, .width = width, .microbatches = 2, .setting = setting};
          if (schedule->cyclic) layout.width = layout.microbatches = 1;
          if (!takes(*schedule, layout)) continue;
          CAPTURE(schedule->name, name, stages, width);
          const Layout found = with_defaults(*schedule, layout);
          CHECK(make_plan(schedule->name, layout).ranks() == schedule->ranks(found));
        }
}

TEST_CASE("schedules: every option makes a plan that verifies and survives printing",
          "[schedule]") {
  std::set<std::string> taken;
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int width : {1, 3})
      for (int stages : {1, 2, 4})
        for (int microbatches : {1, 3})
          for (int first : {0, 2})
            for (int options = 0; options < 8; options += sanitized ? 3 : 1) {
              Layout layout{stages,
                            width,
                            microbatches,
                            2,
                            first,
                            (options & 1) > 0,
                            (options & 2) > 0,
                            (options & 4) > 0};
              INFO(name << " W" << width << " D" << stages << " M" << microbatches << " first "
                        << first << " options " << options);
              if (!takes(name, layout)) continue;
              Plan plan = make_plan(name, layout);
              CHECK(parse(print(plan)) == plan);
              CHECK(verify(plan).facts().capacity == 0);
              CHECK(plan.clip == layout.clip);
              CHECK(plan.tied.empty() == !(layout.tied && stages > 1));
              taken.insert(name);
            }
  CHECK(taken.size() == ordinary_schedules().size());
}

TEST_CASE("schedules: replicas take turns with microbatches and meet in a group for each stage",
          "[schedule]") {
  for (const char* name : {"gpipe", "1f1b", "2bw"}) {
    Plan plan = make_plan(name, {.stages = 2, .width = 2, .microbatches = 3, .steps = 2});
    REQUIRE(plan.ranks() == 4);
    CHECK(plan.per_step == 6);
    for (int stage : {0, 1}) {
      CHECK(forwards(plan.rows[stage], stage) == std::multiset{0, 1, 2, 6, 7, 8});
      CHECK(forwards(plan.rows[2 + stage], stage) == std::multiset{3, 4, 5, 9, 10, 11});
    }
    CHECK(std::set(plan.groups.begin(), plan.groups.end()) ==
          std::set<std::vector<int>>{{0, 2}, {1, 3}});
  }
  Plan plan = make_plan("pipedream", {.stages = 2, .width = 2, .microbatches = 3, .steps = 2});
  CHECK(plan.per_step == 2);  // every microbatch of a replica is an update
  CHECK(plan.steps == 6);
  CHECK(forwards(plan.rows[2], 0) == std::multiset{1, 3, 5, 7, 9, 11});
}

TEST_CASE("schedules: two plans that follow each other compute what one does, but for drift",
          "[schedule]") {
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int stages : {1, 3}) {
      Layout layout = fitted(name, {.stages = stages, .width = 2, .microbatches = 2, .steps = 5});
      auto whole = computations(make_plan(name, layout));
      layout.steps = 2;
      auto parts = computations(make_plan(name, layout));
      layout.first = 2;
      layout.steps = 3;
      parts.merge(computations(make_plan(name, layout)));
      const bool drifts = schedule->drifts && stages > 1;  // less so in a pipeline that fills
      CHECK((parts == whole) == !drifts);
    }
}

TEST_CASE("schedules: a plan moved is the plan of later", "[schedule]") {
  for (const auto& [name, schedule] : ordinary_schedules()) {
    // From 2 on: the first steps of delayed schedules read version 0 together.
    Layout layout = fitted(name, {3, 2, 2, 2, 2, true, true, true});
    Plan early = make_plan(name, layout);
    layout.first = 7;
    Plan late = make_plan(name, layout);
    CHECK(later_plan(early, late.first - early.first) == late);
    CHECK(later_plan(late, 0) == late);
    CHECK(verify(later_plan(late, 100)).plan().first == late.first + 100);
  }
}

TEST_CASE("schedules: a cyclic plan moved to the beginning is the plan of the beginning",
          "[schedule]") {
  for (const char* name : {"cyclic-v1", "cyclic-v2"})
    for (const auto& [typed, setting] : settings())
      for (bool recompute : {false, true})
        for (int first : {1, 2}) {
          CAPTURE(name, typed, recompute, first);
          Layout layout{.stages = 4, .steps = 3, .recompute = recompute, .setting = setting};
          Plan beginning = make_plan(name, layout);
          layout.first = first;
          Plan moved = later_plan(make_plan(name, layout), -first);
          CHECK_NOTHROW(verify(moved));
          if (setting == Setting::zero) CHECK(moved == beginning);
        }
}

TEST_CASE("schedules: fewer microbatches than stages", "[schedule]") {
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int microbatches : {1, 2}) {
      const Layout layout = fitted(name, {.stages = 5, .microbatches = microbatches, .steps = 3});
      if (takes(name, layout)) CHECK_NOTHROW(verify(make_plan(name, layout)));
    }
  Facts facts = verify(make_plan("2bw", {.stages = 5, .microbatches = 2, .steps = 4})).facts();
  CHECK(facts.staleness == 1);
  CHECK(facts.live_versions == std::vector(5, 2));
}

TEST_CASE("schedules: an evaluation is forwards alone, where the stages lie", "[schedule]") {
  for (const auto& [name, schedule] : ordinary_schedules()) {
    const Layout layout = fitted(name, {.stages = 3, .width = 2, .microbatches = 2, .steps = 2});
    Plan training = make_plan(name, layout);
    for (int microbatches : {1, 5, 8}) {
      Plan plan = make_evaluation(training, 4, microbatches);
      CHECK(verify(plan).facts().staleness == 0);
      CHECK(parse(print(plan)) == plan);
      CHECK(plan.steps == 0);
      CHECK(plan.first == 4);
      std::multiset<std::pair<int, int>> seen, expected;
      for (int rank = 0; rank < plan.ranks(); ++rank)
        for (const Instruction& x : plan.rows[rank]) {
          CHECK(x.op != Op::backward);
          CHECK(x.op != Op::step);
          if (x.op != Op::forward) continue;
          CHECK(x.version == 4);
          CHECK(!forwards(training.rows[rank], x.stage).empty());
          seen.insert({x.stage, x.micro});
        }
      for (int stage = 0; stage < layout.stages; ++stage)
        for (int micro = 0; micro < microbatches; ++micro) expected.insert({stage, micro});
      CHECK(seen == expected);
    }
  }
  Plan training = make_plan("data", {.stages = 1, .width = 2, .microbatches = 1, .steps = 1});
  CHECK_THROWS_WITH(make_evaluation(training, 0, 0), Contains("at least one microbatch, got 0"));
}

TEST_CASE("schedules: what makes no sense is refused", "[schedule]") {
  std::string names;
  for (const Schedule* each : schedules())
    names += (names.empty() ? "there are " : ", ") + std::string(each->name);
  CHECK_THROWS_WITH(make_plan("zigzag", {}), Contains("no schedule \"zigzag\"") && Contains(names));
  CHECK_THAT(names, Contains(" 1f1b,") && Contains(" pipedream,"));
  auto with = [](auto change) {
    Layout layout{.stages = 2, .width = 2, .microbatches = 2, .steps = 2};
    change(layout);
    return make_plan("2bw", layout);
  };
  CHECK_THROWS_WITH(with([](Layout& l) { l.stages = 0; }), Contains("--stages 0, "));
  CHECK_THROWS_WITH(with([](Layout& l) { l.width = 0; }), Contains("--data-parallel 0, "));
  CHECK_THROWS_WITH(with([](Layout& l) { l.microbatches = -1; }), Contains("--microbatches -1, "));
  CHECK_THROWS_WITH(with([](Layout& l) { l.steps = 0; }),
                    Contains("--steps 0, --first 0: a plan needs at least 1"));
  CHECK_THROWS_WITH(with([](Layout& l) { l.first = -1; }), Contains("a plan needs"));
  CHECK_THROWS_WITH(
      with([](Layout& l) { l.steps = 1 << 30; }),
      Contains("Use a smaller --steps, --data-parallel, --microbatches or, of plan, --first"));
}

TEST_CASE("schedules: computations that wait for each other are refused", "[schedule]") {
  Plan plan = parse("stages 2 per_step 1 steps 1\n0B0v0 0F0v0\n1F0v0 1B0v0");
  CHECK_THROWS_WITH(lower(plan),
                    Contains("wait for each other: rank 0 is at 0B0v0, which needs the gradient"));
}

TEST_CASE("microbatches of an interleaved plan are counted beyond an int's products") {
  const Plan plan = make_plan("interleaved", {.stages = 2, .microbatches = 47'000, .chunks = 2});
  CHECK(std::ranges::count_if(plan.rows[0], begins_pass) == 2 * 47'000);
}
