// The program `plan` as a whole: its help, plans in files and pipes, and large requests.
// Not here: its commands, each in a file of its own (plan_show_test and so on).
#include "tests/examples/plan_program.h"

#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::tests;

TEST_CASE("a plan's file can be verified, simulated and drawn, and goes through a pipe") {
  Folder folder;
  const std::string program = plangrad::tests::program("plan");
  for (const auto& [name, make] : ordinary_schedules()) {
    const std::string text = output_of(small_plan("show", name));
    const std::string file = folder.write(name + ".plan", text);
    CHECK(output_of({"plan", "show", file}) == text);
    CHECK(json_of({"plan", "verify", file}) == json_of(small_plan("verify", name)));
    CHECK(output_of({"plan", "simulate", file}) == output_of(small_plan("simulate", name)));
    CHECK(output_of({"plan", "draw", file}) == output_of(small_plan("draw", name)));
    const std::string show = program + " show --table " + file, verify = program + " verify -";
    CHECK(output_of({"/bin/sh", "-c", show + " | " + verify}) ==
          output_of(small_plan("verify", name)));
  }
}

TEST_CASE("the help of plan and of its commands lists what they take, with an example") {
  const Words schedule{"--schedule", "--stages", "--data-parallel", "--microbatches", "--recompute",
                       "--steps",    "--first",  "--clip",          "--tied"};
  const Words costs{"--forward",      "--backward",  "--input-part", "--weight-part",
                    "--step",         "--bandwidth", "--latency",    "--activation-bytes",
                    "--weight-bytes", "--slowness",  "--machine",    "--devices",
                    "--reduction",    "--hosts"};
  const std::map<std::string, Words> flags{
      {"show", schedule + Words{"FILE", "--table", "--columns", "--json"}},
      {"verify", schedule + costs + Words{"FILE", "--json"}},
      {"simulate", schedule + costs + Words{"FILE", "--json"}},
      {"draw",
       schedule + costs + Words{"FILE", "--out", "--columns", "--json", "--critical-path"}}};
  const std::string all = output_of({"plan", "--help"});
  CHECK_THAT(all, Contains("Usage: plan [FLAGS] [COMMAND]") && Contains("\n  plan show --help"));
  for (const auto& [command, names] : flags) {
    CHECK_THAT(all, Contains("\n  " + command + " "));
    const std::string help = output_of({"plan", command, "--help"});
    CHECK_THAT(help, Contains("Usage: plan " + command + " [FLAGS] [FILE]"));
    CHECK_THAT(help, Contains("\nExamples:\n") && Contains("\n  plan " + command + " "));
    for (const std::string& name : names) CHECK_THAT(help, Contains("\n  " + name));
  }
}

TEST_CASE("plan takes large requests") {
  CHECK(json_of({"plan", "verify", "--schedule", "2bw", "--stages", "64", "--microbatches",
                 "512"})["staleness"] == 1);
  Finished wide = succeeded(run({"plan", "show", "--schedule", "1f1b", "--stages", "1024"}));
  CHECK(std::count(wide.output.begin(), wide.output.end(), '\n') == 1025);
}
