// Flags of cyclic schedules and of ZeRO, in training programs and in plan: what is found when they
// are left out, and what they refuse. Not here: what such plans compute (tests/parallel/).

#include "nn/checkpoint/file.h"
#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

/// With its embedding and its head, this model can be cut into four stages.
const Words model{"--layers", "2", "--batch", "12"};
const Words cyclic{"--schedule", "cyclic-v2", "--setting"};

/// The line about a run of train_gpt that must succeed.
std::string about(const Runs& runs, const std::string& name, const Words& more) {
  Finished result = succeeded(run(runs.words(name, more)));
  return result.output.substr(0, result.output.find('\n'));
}

/// What a run's steps wrote under one name.
std::vector<json> column(const Runs& runs, const std::string& run, const char* name) {
  std::vector<json> all;
  for (const json& line : losses_of(runs.path(run))) all.push_back(line.value(name, json()));
  return all;
}

}  // namespace

TEST_CASE("plan takes a setting, and gives a cyclic schedule as many microbatches as stages") {
  const std::vector<std::pair<std::string, std::size_t>> ranks{
      {"one-device", 1}, {"data", 4}, {"pipeline", 4}, {"model", 10}, {"zero", 4}};
  for (const auto& [setting, number] : ranks) {
    CAPTURE(setting);
    const Words verify = Words{"plan", "verify"} + cyclic + Words{setting};
    CHECK(json_of(verify + Words{"--stages", "4", "--steps", "3"})["live_versions"].size() ==
          number);
  }
}

TEST_CASE("programs say what 2bw with few microbatches costs, and plans stay plans") {
  const std::string said =
      "2bw with 1 microbatch on 4 stages stalls: a microbatch takes the time of 2 forwards and "
      "backwards of a stage instead of one; 3 microbatches or more keep it full";
  const Words few{"--schedule", "2bw", "--stages", "4", "--microbatches"};
  Folder folder;
  for (const char* command : {"show", "verify", "simulate", "draw"}) {
    CAPTURE(command);
    const Finished result = succeeded(run(Words{"plan", command} + few + Words{"1"}));
    CHECK(result.errors == "note: " + said + "\n");
    CHECK_THAT(result.output, !Contains("stalls"));
    CHECK(run(Words{"plan", command} + few + Words{"3"}).errors.empty());
  }
  const Finished shown = run(Words{"plan", "show"} + few + Words{"1"});
  const std::string file = folder.write("few.plan", shown.output);
  CHECK(run({"plan", "verify", file}).errors.empty());  // a plan's text has no schedule

  Runs runs{model};
  CHECK_THAT(about(runs, "few", few + Words{"1"}),
             Contains("; layers of stages 0-0 1-1 2-2 3-3; 2bw on 4 ranks (threads), ") &&
                 Contains("1 replica of 4 stages. " + said));
  CHECK_THAT(about(runs, "enough", few + Words{"3"}), !Contains("stalls"));
}

TEST_CASE("a cyclic run finds its stages from its ranks, and the other way round") {
  Runs runs{model};
  CHECK_THAT(about(runs, "ranks", cyclic + Words{"pipeline", "--ranks", "4"}),
             Contains("cyclic-v2 on 4 ranks (threads), 4 stages, --setting pipeline"));
  CHECK_THAT(about(runs, "stages", cyclic + Words{"pipeline", "--stages", "4"}),
             Contains("cyclic-v2 on 4 ranks"));
  runs.check_same("ranks", "stages");
  CHECK_THAT(about(runs, "one", cyclic + Words{"one-device", "--stages", "3"}),
             Contains("cyclic-v2 on one rank, 3 stages, --setting one-device"));
  CHECK_THAT(about(runs, "none", cyclic + Words{"one-device", "--stages", "1"}),
             Contains("cyclic-v2 on one rank, 1 stage, --setting one-device"));
}

TEST_CASE("cyclic-v2 does not clip, and says so where nobody asked for it") {
  Runs runs{model + cyclic + Words{"pipeline", "--stages", "4"}};
  CHECK_THAT(about(runs, "default", {}), Contains("gradients are not clipped"));
  CHECK_THAT(about(runs, "none", {"--clip", "0"}), !Contains("clipped"));
  const Finished quiet = run(runs.words("quiet", {"--quiet"}));
  CHECK(quiet.output.empty());
  CHECK(quiet.errors == "warning: gradients are not clipped, which cyclic-v2 can't do\n");
  runs.check_same("default", "none");
  CHECK(summary_of(runs.path("default"))["config"]["flags"]["--clip"] == 0);
  runs.check_refused({"--clip", "1"}, "use --clip 0, or --schedule cyclic-v1");
  // This one has its norm in time, and the default of 1.
  CHECK_THAT(about(runs, "v1", {"--schedule", "cyclic-v1"}), !Contains("clipped"));
  CHECK(summary_of(runs.path("v1"))["config"]["flags"]["--clip"] == 1);
}

TEST_CASE("a cyclic run is resumed as it was, or in another layout") {
  Runs runs{model};
  const Words pipeline = cyclic + Words{"pipeline", "--ranks", "4"};
  const Words some{"--stop-after", "3"};
  runs.train("whole", pipeline);
  runs.train("parts", pipeline + some);
  runs.resume("parts");
  runs.check_same("whole", "parts");
  CHECK(summary_of(runs.path("parts"))["config"]["flags"]["--setting"] == "pipeline");

  // A setting alone leaves the schedule and its stages as they were.
  runs.train("moved", pipeline + some);
  runs.resume("moved", {"--setting", "one-device"});
  const nlohmann::json flags = summary_of(runs.path("moved"))["config"]["flags"];
  CHECK(flags["--schedule"] == "cyclic-v2");
  CHECK(flags["--stages"] == 4);
  CHECK(flags["--setting"] == "one-device");

  // Its two microbatches give way to the stages' number; that clipping ends is for the user to say.
  runs.train("data", Words{"--microbatches", "2"} + some);
  Finished refused = run(Words{"train_gpt", "--resume", runs.path("data")} + pipeline);
  CHECK_THAT(refused.errors, Contains("--clip 1: the schedule cyclic-v2"));
  runs.resume("data", pipeline + Words{"--clip", "0"});
  CHECK(summary_of(runs.path("data"))["peak_bytes"].size() == 4);
}

TEST_CASE("a cyclic run says its setting and gap, where they were not given, too") {
  Runs runs{model};
  auto flags_of = [&](const char* name, const Words& more) {
    runs.train(name, more);
    return summary_of(runs.path(name))["config"]["flags"];
  };
  json flags = flags_of("data", {"--schedule", "cyclic-v2", "--ranks", "4"});
  CHECK(flags["--setting"] == "data");
  CHECK(flags["--gap"] == 3);
  flags = flags_of("pipeline", cyclic + Words{"pipeline", "--ranks", "4"});
  CHECK_FALSE(flags.contains("--gap"));
  CHECK_FALSE(flags_of("ordinary", {}).contains("--setting"));
  for (const std::string setting : {"data", "pipeline"})
    CHECK_THAT(plangrad::nn::read_file(runs.path(setting) + "/report.html"),
               Contains(": train_gpt: cyclic-v2 (" + setting + "), 4 ranks</title>"));
}

TEST_CASE("what follows from a cyclic schedule ends when a run goes on with another") {
  Runs runs{model};
  const Words some{"--stop-after", "3"};
  runs.train("stages", Words{"--schedule", "cyclic-v1", "--ranks", "4"} + some);
  CHECK_FALSE(summary_of(runs.path("stages"))["config"]["flags"].contains("--microbatches"));
  runs.resume("stages", {"--schedule", "data", "--ranks", "4", "--stages", "4"});
  CHECK(summary_of(runs.path("stages"))["config"]["flags"]["--microbatches"] == 1);
  CHECK(summary_of(runs.path("stages"))["peak_bytes"].size() == 4);

  runs.train("turns", cyclic + Words{"data", "--ranks", "4", "--gap", "2"} + some);
  runs.resume("turns", {"--setting", "pipeline"});
  CHECK_FALSE(summary_of(runs.path("turns"))["config"]["flags"].contains("--gap"));
}

TEST_CASE("layouts that a cyclic schedule can't have are refused before anything is written") {
  Runs runs{model};
  runs.check_refused({"--schedule", "cyclic-v2"}, "--schedule cyclic-v2 needs --stages N");
  runs.check_refused(cyclic + Words{"one-device", "--ranks", "1"}, "one rank runs all of them");
  runs.check_refused(cyclic + Words{"model", "--ranks", "5"}, "3 make 2, 6 make 3");
  runs.check_refused(cyclic + Words{"model", "--stages", "3", "--ranks", "3"},
                     "3 ranks: the schedule cyclic-v2 with --stages 3 and --setting model needs 6");
  runs.check_refused(
      cyclic + Words{"pipeline", "--ranks", "4", "--microbatches", "2"},
      "--microbatches 2: the schedule cyclic-v2 has as many microbatches as stages, 4");
  runs.check_refused(cyclic + Words{"pipeline", "--ranks", "4", "--data-parallel", "2"},
                     "a cyclic schedule has no replicas");
  runs.check_refused(cyclic + Words{"zero", "--untied", "--stages", "4", "--zero", "1"},
                     "with --setting zero, not with --zero");
  runs.check_refused(cyclic + Words{"ring"}, "--setting: expected one of data,");
  runs.check_refused(cyclic + Words{"pipeline", "--stages", "3", "--batch", "8"},
                     "--batch 8 does not divide into 3 microbatches");
}

TEST_CASE("flags that a schedule has no use for are refused before anything is written") {
  Runs runs{model};
  runs.check_refused({"--setting", "model"}, "--setting model: the schedule data has no settings");
  runs.check_refused({"--setting", "model", "--stages", "2"}, "the schedule 1f1b has no settings");
  runs.check_refused({"--zero", "4"}, "--zero: expected a whole number from 0 to 3");
  runs.check_refused({"--zero", "1"}, "with one there is nothing to share");
  runs.check_refused({"--zero", "2", "--stages", "2", "--data-parallel", "2"},
                     "can't be combined with 1f1b");
}

TEST_CASE("schedules with several stages on a rank find them from the ranks, and are resumed") {
  Runs runs{{"--layers", "4", "--batch", "8", "--microbatches", "4", "--untied"}};
  const Words looped{"--schedule", "interleaved", "--ranks", "2", "--chunks", "3"};
  CHECK_THAT(about(runs, "whole", looped),
             Contains("interleaved on 2 ranks (threads), 1 replica of 6 stages"));
  const json flags = summary_of(runs.path("whole"))["config"]["flags"];
  CHECK(flags["--stages"] == 6);
  CHECK(flags["--chunks"] == 3);
  runs.train("parts", looped + Words{"--stop-after", "3"});
  runs.resume("parts");
  runs.check_same("whole", "parts");
  // Other schedules have no chunks, and give the same bits.
  runs.train("moved", looped + Words{"--stop-after", "3"});
  runs.resume("moved", {"--schedule", "1f1b", "--stages", "6"});
  CHECK_FALSE(summary_of(runs.path("moved"))["config"]["flags"].contains("--chunks"));
  for (const char* name : {"loss", "gradient_norm"})
    CHECK(column(runs, "whole", name) == column(runs, "moved", name));

  CHECK_THAT(about(runs, "folded", {"--schedule", "zb-v", "--ranks", "2"}),
             Contains("zb-v on 2 ranks") && Contains("norm of the whole gradient"));
  CHECK_THAT(about(runs, "copies", {"--schedule", "dualpipe", "--ranks", "4", "--zero", "1"}),
             Contains("dualpipe on 4 ranks (threads), 1 replica of 4 stages"));
  runs.check_refused({"--chunks", "2"},
                     "--chunks 2: the schedule data has no choice of chunks; this flag is for "
                     "interleaved and looped-bfs");
  runs.check_refused({"--schedule", "interleaved", "--placement", "v"},
                     "--placement v: the schedule interleaved has no choice of placement");
  runs.check_refused({"--schedule", "interleaved", "--stages", "3"},
                     "can't have 3; use --stages 4");
  runs.check_refused(looped + Words{"--chunks", "4"},
                     "8 stages: a GPT of --layers 4 has 6 parts to cut between");
  for (const std::string schedule : {"zb-v", "dualpipe-v", "looped-bfs"})
    runs.check_refused({"--schedule", schedule, "--stages", "3"},
                       "--stages 3: the schedule " + schedule + " holds 2 stages on each rank");
  runs.check_refused({"--schedule", "dualpipe", "--stages", "2", "--microbatches", "1"},
                     "dualpipe needs at least 2 --microbatches");
  runs.check_refused({"--schedule", "interleaved"}, "can't have 1; use --stages 2");
}

TEST_CASE("help names the schedules that a flag is for, as they are registered") {
  const std::string help = run({"plan", "show", "--help"}).output;
  for (const char* line :
       {"interleaved and looped-bfs: stages that each rank holds", "\n  --drift N ",
        " looped-bfs: each round of stages begins", " paci: how many updates a backward's weights",
        " message-driven and recycle: how many microbatches",
        " recycle: ranks of the whole pipelines that are lost",
        " cyclic-v1 and cyclic-v2: where microbatches run",
        " cyclic-v1 and cyclic-v2: stages between consecutive microbatches"})
    CHECK_THAT(help, Contains(line));
}
