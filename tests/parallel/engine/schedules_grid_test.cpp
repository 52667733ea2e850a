// Interleaved, breadth-first, zero-bubble, two-way and drifting schedules with each choice that
// goes with them: the bits of the serial interpreter; and choices that do not go with them.
// Not here: that they learn as one rank does (chunked_engine_test, schedules/drift_rule_test).
#include "tests/catch.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/parallel/support/todays_schedules.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

struct Combined {
  Today today;
  Choice choice;
};

std::vector<Combined> combined() {
  std::vector<Combined> all;
  for (const Today& today : todays_schedules())
    for (const Choice& choice : choices()) {
      all.push_back({today, choice});
      all.back().today.layout.width = 2;
      choice.make(all.back().today.layout);
    }
  return fewer(all);
}

Training training_of(const Layout& layout) {
  Training training(gpt(coded_gpt(layout.tied)), layout.stages);
  training.clip = layout.clip ? 0.3 : 0;
  training.learning_rate = {0.02, 0.002, 1, 8};
  return training;
}

/// The losses of the same training with no choice made; each is run once.
const std::map<int, double>& without_choices(const Today& today) {
  static std::map<std::string, std::map<int, double>> known;
  auto& losses = known[today.schedule];
  if (!losses.empty()) return losses;
  const Layout plain{.stages = today.layout.stages,
                     .width = 2,
                     .microbatches = today.layout.microbatches,
                     .steps = 2};
  SmallBatches batches(coded_gpt(false));
  return losses =
             run_by_engine(training_of(plain), plans_of(today.schedule, plain, 2), batches).losses;
}

}  // namespace

TEST_CASE(
    "schedules of today combine with every choice, and have the bits of the serial interpreter",
    "[chunked]") {
  int number = 0;
  for (const auto& [today, choice] : combined()) {
    INFO(today.schedule << ", " << choice.name);
    const Training training = training_of(today.layout);
    SmallBatches batches(coded_gpt(today.layout.tied));
    const auto plans = plans_of(today.schedule, today.layout, 2);
    const Outcome serial = run_serially(training, plans, batches);
    const Outcome engine = run_by_engine(training, plans, batches, ++number % 2);
    check_same_bits(engine, serial);
    CHECK(engine.losses.size() == 8u * today.layout.microbatches);
    if (choice.keeps_bits(today.schedule))
      CHECK(engine.losses == without_choices(today));
    else if (!today.layout.clip && !today.layout.tied)  // else it is another training
      CHECK(engine.losses != without_choices(today));
  }
}

TEST_CASE("schedules of today refuse choices that they do not have", "[chunked]") {
  for (auto [schedule, layout] : todays_schedules()) {
    INFO(schedule);
    Layout sharded = layout;
    sharded.width = 2;
    for (int level : {2, 3}) {
      sharded.zero = level;
      CHECK_THROWS_WITH(
          make_plan(schedule, sharded),
          Contains(text("ZeRO ", level, " can't be combined with ", schedule, ": ")) &&
              Contains("Use --zero 1, or --schedule data"));
    }
    sharded.width = sharded.zero = 1;
    if (schedule == "dualpipe")
      CHECK_NOTHROW(make_plan(schedule, sharded));  // a rank's stages are on another one, too
    else
      CHECK_THROWS_WITH(make_plan(schedule, sharded),
                        Contains("Use a --data-parallel of at least"));
    Layout drifting = layout;
    drifting.drift = 1;
    if (schedule == "paci")
      CHECK_NOTHROW(make_plan(schedule, drifting));
    else
      CHECK_THROWS_WITH(make_plan(schedule, drifting), Contains("--drift 1: in the schedule "));
    Layout folded = layout;
    folded.placement = Placement::both_ways;
    if (schedule != "dualpipe" && schedule != "looped-bfs")
      CHECK_THROWS_WITH(make_plan(schedule, folded), Contains(" has a placement of its own"));
  }
}
