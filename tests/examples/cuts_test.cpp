// --cuts: stages that a user cuts by hand, in runs, in their checkpoints, and in plans.
// Not here: cuts that programs find (tests/parallel/engine/partition_test.cpp). Chapter 06.
#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;

namespace {

/// The bytes of the weights that a run has exported, which are the same however it was cut.
std::string exported(const Runs& runs, const std::string& name) {
  return plangrad::nn::read_file(runs.path(name + "/huggingface/model.safetensors"));
}

void check_same_training(const Runs& runs, const std::string& one, const std::string& two) {
  CHECK(losses_by_update(runs.path(one)) == losses_by_update(runs.path(two)));
  CHECK((exported(runs, one) == exported(runs, two)));
}

nlohmann::json flags_of(const Runs& runs, const std::string& name) {
  return summary_of(runs.path(name))["config"]["flags"];
}

}  // namespace

TEST_CASE("a run that is cut by hand has the bits of one rank, and is resumed as it was cut") {
  const Runs runs{
      {"--layers", "4", "--batch", "8", "--microbatches", "4", "--untied", "--clip", "0"}};
  const Words cut{"--schedule", "1f1b", "--stages", "3", "--cuts", "1,2.5"};
  runs.train("one");
  runs.train("cut", cut);
  check_same_training(runs, "one", "cut");
  CHECK(flags_of(runs, "cut")["--cuts"] == nlohmann::json{1, 2.5});
  CHECK_FALSE(flags_of(runs, "one").contains("--cuts"));
  // The last stage has most of the model, the first has a table alone.
  const nlohmann::json bytes = summary_of(runs.path("cut"))["peak_bytes"];
  CHECK(bytes[2]["total"].get<double>() > 1.5 * bytes[1]["total"].get<double>());

  runs.train("parts", cut + Words{"--stop-after", "2"});
  runs.resume("parts");
  runs.check_same("cut", "parts");
  runs.train("halves", {"--schedule", "gpipe", "--stages", "7", "--cuts", "1,1.5,2,2.5,3,3.5"});
  check_same_training(runs, "one", "halves");
  const Words show{"plan", "show", "--schedule", "1f1b", "--stages", "3", "--microbatches", "4"};
  const std::string plan = runs.folder.write("own.plan", output_of(show));
  for (const Words& layout :
       {Words{"--cuts", "3,5"}, {"--stages", "2"}, {"--cuts", "3,5", "--plan", plan}}) {
    runs.train("moved", cut + Words{"--codec", "none", "--stop-after", "2"});
    runs.resume("moved", layout);
    check_same_training(runs, "one", "moved");
    const nlohmann::json flags = flags_of(runs, "moved");
    CHECK(flags.contains("--cuts") == (layout[0] == "--cuts"));
    if (flags.contains("--cuts")) CHECK(flags["--cuts"] == nlohmann::json{3, 5});
  }
}

TEST_CASE("cuts that a model or a number of stages does not have are refused in one line") {
  const Runs runs{{"--layers", "4", "--batch", "8", "--microbatches", "4"}};
  const auto check = [&](const std::string& cuts, const std::string& part) {
    runs.check_refused({"--schedule", "gpipe", "--stages", "3", "--cuts", cuts}, part);
  };
  check("2", "--cuts 2: cut there, a model has 2 stages, and the plan has 3");
  check("2,9", "cuts: a stage can't begin at layer 9; the model has 6 layers, the last is layer 5");
  check("2,5.5", "cuts: a stage can't begin at layer 5.5; layer 5 (head) has no halves");
  check("3,3", "--cuts 3,3: expected the layers at which stages begin, ascending");
  check("0,3", "--cuts: expected a number from 1 to 100000, got 0");
  check("1,b", "--cuts: expected a number");
}

TEST_CASE("a plan is the same however a model is cut, its memory is not") {
  const Words show{"plan", "show", "--schedule", "1f1b", "--stages", "2", "--microbatches", "2"};
  CHECK(output_of(show + Words{"--cuts", "1"}) == output_of(show));
  check_refused(show + Words{"--cuts", "1,2"},
                "--cuts 1,2: cut there, a model has 3 stages, and the plan has 2");
  Words simulate = show + Words{"--model", "gpt2-124m"};
  simulate[1] = "simulate";
  const auto bytes = [&](const Words& cuts) {
    return json_of(simulate + cuts)["memory"]["peaks"][0].get<double>();
  };
  CHECK(bytes({"--cuts", "1"}) < bytes({}) / 2);
  const Folder folder;
  const std::string tied = folder.write("tied.plan", output_of(show + Words{"--tied"}));
  const Words file{"plan", "simulate", tied, "--model", "gpt2-124m", "--cuts"};
  CHECK(json_of(file + Words{"1"})["memory"]["peaks"][0] == bytes({"--cuts", "1"}));
  check_refused(file + Words{"1,2"}, "--cuts 1,2: cut there, a model has 3 stages");
  check_refused({"plan", "verify", tied, "--cuts", "1"}, "tied.plan and --cuts: give a plan file");
  check_refused(
      simulate + Words{"--cuts", "14"},
      "cuts: a stage can't begin at layer 14; the model has 14 layers, the last is layer 13");
}
