// train_gpt with a user's own endless plan: its body runs as often as the run needs. And SIGINT in
// the schedules that have several stages on a rank, or drift.
// Not here: plans of one length (ranks_test), and which plans these are (session/own_plans_test).
#include <csignal>

#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

const Words model{"--layers", "2", "--batch", "12", "--steps", "12", "--evaluate-every", "6"};

/// The file of a schedule's endless plan.
std::string endless_file(const Runs& runs, const Words& schedule, const Words& more = {}) {
  return runs.folder.write("own.plan",
                           output_of(Words{"plan", "show", "--endless"} + schedule + more));
}

}  // namespace

TEST_CASE("a plan with bars gives the bits of the schedule that it was made by") {
  const std::vector<std::pair<Words, Words>> cases{
      {{"--schedule", "2bw", "--stages", "4", "--microbatches", "3"}, {"--clip", "--tied"}},
      {{"--schedule", "interleaved", "--stages", "4", "--microbatches", "2", "--data-parallel",
        "2"},
       {"--clip", "--tied"}}};
  for (const auto& [schedule, shown] : cases) {
    CAPTURE(schedule);
    Runs runs{model};
    const Words own{"--plan", endless_file(runs, schedule, shown)};
    runs.train("schedule", schedule);
    runs.train("plan", own);
    runs.check_same("schedule", "plan");
    runs.train("parts", own + Words{"--stop-after", "5"});
    runs.resume("parts", {"--evaluate-every", "12"});
    const bool same = weights_of(runs.path("parts")) == weights_of(runs.path("schedule"));
    CHECK(same);
  }
}

TEST_CASE("a plan with bars is run on and on until it is interrupted, and goes on") {
  Runs runs{model};
  const std::string file = endless_file(
      runs, {"--schedule", "2bw", "--stages", "2", "--microbatches", "3"}, {"--clip", "--tied"});
  const std::string out = runs.path("out");
  const Words without_end{"--steps", "1000000", "--evaluate-every", "0"};
  Running interrupted(runs.words("out", Words{"--plan", file} + without_end));
  wait_for_steps(out, 6);  // those that it records are over
  interrupted.signal(SIGINT);
  CHECK(interrupted.finish().status == 128 + SIGINT);
  const std::size_t steps = metrics_of(out).size();
  runs.resume("out", {"--stop-after", "3"});
  CHECK(metrics_of(out).size() == steps + 3);
  CHECK(summary_of(out)["drained"] == json{{"end", 1}});
  check_ended(run(Words{"train_gpt", "--resume", out, "--stop-after", "1"}), 2,
              "--plan: the plan makes 2 updates, or 1 more any number of "
              "times; it can't make the 1 from update ");
}

TEST_CASE("a plan with bars that a run can't repeat is refused before anything is written") {
  Runs runs{model};
  const Words schedule{"--schedule", "2bw", "--stages", "4", "--microbatches", "3"};
  auto refused = [&](const Words& shown, const Words& more, const std::string& part) {
    runs.check_refused(Words{"--plan", endless_file(runs, shown)} + more, part);
  };
  const Words options{"--clip", "--tied"};
  // A validation after update 7 ends a plan there.
  refused(schedule + options, {"--steps", "8", "--evaluate-every", "7"},
          "it can't make the 1 from update 7 to the end after update 8; use other --steps, ");
  refused(schedule + options + Words{"--first", "3"}, {},
          "own.plan: a run can repeat an endless plan that begins with the run");
  refused({"--schedule", "cyclic-v2", "--setting", "zero", "--stages", "4"},
          {"--untied", "--clip", "0"}, "not with --setting zero");
}

TEST_CASE("runs of schedules with several stages on a rank, or drift, are interrupted and go on") {
  const std::vector<Words> schedules{
      {"--schedule", "zb-v", "--stages", "4", "--microbatches", "2"},
      {"--schedule", "paci", "--stages", "2", "--microbatches", "2", "--untied", "--clip", "0"}};
  for (const Words& schedule : schedules) {
    CAPTURE(schedule);
    Runs runs{model + schedule + Words{"--steps", "1000000", "--evaluate-every", "0"}};
    const std::string out = runs.path("out");
    Running interrupted(runs.words("out"));
    wait_for_steps(out, 6);
    interrupted.signal(SIGINT);
    CHECK(interrupted.finish().status == 128 + SIGINT);
    auto updates = [&] {
      return std::ranges::count_if(metrics_of(out), [](auto& x) { return x.contains("loss"); });
    };
    const auto steps = updates();
    runs.resume("out", {"--stop-after", "3"});
    CHECK(updates() == steps + 3);
  }
}
