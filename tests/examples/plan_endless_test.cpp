// The program `plan` with endless plans: made by --endless or read from a file, through every
// command. Not here: other plans (plan_program_test), and what bars mean (tests/parallel).
#include <regex>

#include "nn/checkpoint/file.h"
#include "parallel/schedules/schedule.h"
#include "tests/examples/plan_program.h"

using namespace plangrad::tests;
namespace parallel = plangrad::parallel;

namespace {

Words endless_2bw(const std::string& command) {
  return {"plan", command,          "--schedule", "2bw",      "--stages",
          "3",    "--microbatches", "3",          "--endless"};
}

}  // namespace

TEST_CASE("plan show --endless prints a plan with bars, and how long its proof took") {
  const std::string shown = output_of(endless_2bw("show"));
  const auto plan = parallel::make_endless("2bw", {.stages = 3, .microbatches = 3});
  REQUIRE(plan);
  const std::string text = print(*plan);
  REQUIRE(shown.starts_with(text));
  CHECK(std::regex_match(shown.substr(text.size()),
                         std::regex("# all lengths verified in [0-9.]+ (µs|ms|s)\n")));
  CHECK(parallel::parse(shown) == *plan);
  const std::string table = output_of(endless_2bw("show") + Words{"--table"});
  CHECK(table.starts_with(text));
  CHECK_THAT(table, Contains("\n# rank 2  ") && Contains("|2F3"));

  const auto json = json_of(endless_2bw("show"));
  CHECK(json["header"]["period"] == 1);
  CHECK(std::ranges::count(json["rows"][2], "|") == 2);
  CHECK(json["facts"]["steady_state"]["seconds_per_update"] == 9);
}

TEST_CASE("plan verifies and simulates every length of an endless plan, also from a file") {
  Folder folder;
  const std::string file = folder.write("endless.plan", output_of(endless_2bw("show")));
  const Words flags{"--backward", "2"};
  const std::string verified = output_of(Words{"plan", "verify", file} + flags);
  CHECK(verified == output_of(endless_2bw("verify") + flags));
  CHECK(verified.starts_with("verified at every length\n"));
  CHECK_THAT(verified, Contains("\nsteps x microbatches  3 x 3; without a body 2 steps, each body "
                                "adds 1\n"));
  CHECK_THAT(verified, Contains("\nsteady state          9 s an update, bubble 0%\n"));
  const Words shorter{"plan", "verify", "--schedule", "1f1b", "--stages", "2", "--endless"};
  CHECK_THAT(output_of(shorter + Words{"--microbatches", "2"}), Contains("body 1 step, each body"));
  const std::string simulated = output_of(Words{"plan", "simulate", file} + flags);
  CHECK(simulated == output_of(endless_2bw("simulate") + flags));
  CHECK(simulated.starts_with(
      "updates               3, with one body\nmakespan              33 s\n"));
  CHECK_THAT(simulated, Contains("\nsteady state          9 s an update, bubble 0%\n"));
  const auto json = json_of(Words{"plan", "simulate", file} + flags);
  CHECK(json["steady_state"] == nlohmann::json{{"seconds_per_update", 9.0}, {"bubble", 0}});
  CHECK(json["makespan"] == 33);
}

TEST_CASE("plan draws head, two bodies and tail, with their bars") {
  Folder folder;
  const std::string file = folder.write("endless.plan", output_of(endless_2bw("show")));
  for (const Words& words : {endless_2bw("draw"), Words{"plan", "draw", file}}) {
    CHECK_THAT(output_of(words), Contains("|2F3") && Contains("|2F6") && Contains("|2F9"));
    for (const char* name : {"x.svg", "x.html"})
      CHECK_THAT(output_of(words + Words{"--out", folder / name}),
                 Contains(", makespan 42 s of head, two bodies and tail\n"));
    CHECK_THAT(plangrad::nn::read_file(folder / "x.svg"), Contains("class=\"repeat\""));
    CHECK_THAT(plangrad::nn::read_file(folder / "x.html"), Contains("\"bars\":[["));
  }
}

TEST_CASE("plan rejects bars that do not repeat, and requests for an endless plan that can't be") {
  Folder folder;
  std::string text = output_of(endless_2bw("show"));
  text.replace(text.find("| 0Sv1"), 6, "0Sv1 |");
  const std::string file = folder.write("moved.plan", text);
  for (const char* command : {"verify", "simulate", "draw"})
    check_refused({"plan", command, file},
                  "repeat: rank 0, 0Sv2: the body does not end as it began", 2);
  text.replace(text.find(" | 0Sv2"), 2, "");
  check_refused({"plan", "verify", folder.write("one.plan", text)},
                "one.plan: plan, line 2: this row has 1 bar");
  for (const char* command : {"show", "verify", "simulate", "draw"}) {
    check_refused(endless_2bw(command) + Words{"--steps", "3"},
                  "--steps 3 and --endless: an endless plan has any number of updates");
    check_refused({"plan", command, "--schedule", "message-driven", "--stages", "2", "--endless"},
                  "depends on timing, so no part of it repeats; use --steps");
    check_refused({"plan", command, file, "--endless"}, " and --endless: give a plan file");
    CHECK_THAT(output_of({"plan", command, "--help"}), Contains("\n  --endless"));
  }
  check_refused({"plan", "show", "--schedule", "cyclic-v2", "--setting", "model", "--stages", "7",
                 "--endless"},
                "cyclic-v2 (model) with 7 stages do not repeat within 12 updates");
}
