// Runs and their checkpoints when something goes wrong: damage, kills, signals, two runs in a
// folder; and the program that looks into checkpoints.
#include <csignal>
#include <fstream>
#include <thread>

#include "examples/programs/run_folder.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/observers/metric_files.h"
#include "parallel/session/agreement.h"
#include "parallel/session/session.h"
#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"
#include "tests/folders.h"
#include "tests/manifests.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// Changes the last byte of a file.
void damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
}

std::vector<int> steps_in_metrics(const std::string& folder) {
  std::vector<int> steps;
  for (const json& line : metrics_of(folder))
    if (line.contains("loss")) steps.push_back(line["step"]);
  return steps;
}

}  // namespace

TEST_CASE("a damaged checkpoint is not continued from, but the one before is", "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run");
  runs.train("run", {"--save-every", "2", "--stop-after", "5", "--evaluate-every", "0"});
  CHECK(step_of(out) == 5);
  CHECK(fs::exists(out + "/checkpoint/manifest-4.json"));
  damage(out + "/checkpoint/optimizer-5.safetensors");

  const Finished verified = run({"checkpoint", "verify", out});
  CHECK(verified.status == 1);
  CHECK_THAT(verified.output, Contains("manifest.json: DAMAGED: ") &&
                                  Contains("manifest-4.json: update 4: intact: "));
  { std::ofstream cut(out + "/checkpoint/manifest-3.json"); }
  CHECK_THAT(run({"checkpoint", "verify", out}).output,
             Contains("manifest-4.json: update 4: intact: ") &&
                 Contains("manifest-3.json: DAMAGED: ") && Contains("is empty"));
  fs::remove(out + "/checkpoint/manifest-3.json");
  const Finished sample = succeeded(run({"sample_gpt", "--from", out, "--tokens", "3"}));
  CHECK_THAT(sample.errors, Contains("warning: ") && Contains(".safetensors: tensor "));

  const Finished resumed =
      succeeded(run({"train_gpt", "--resume", out, "--stop-after", "1", "--data", runs.data}));
  CHECK(std::count(resumed.errors.begin(), resumed.errors.end(), '\n') == 1);
  CHECK_THAT(resumed.errors, Contains("the checkpoint before it, of update 4, is used instead"));
  CHECK(run({"checkpoint", "verify", out}).status == 0);
  runs.resume("run");
  CHECK(steps_in_metrics(out) == std::vector<int>{1, 2, 3, 4, 5, 6});
  runs.train("whole", {"--evaluate-every", "0"});
  runs.check_same("whole", "run");

  for (const auto& file : fs::directory_iterator(out + "/checkpoint"))
    if (file.path().filename().string().starts_with("model")) damage(file.path().string());
  check_ended(run({"train_gpt", "--resume", out, "--steps", "9"}), 2, ".safetensors: tensor ");
}

TEST_CASE("a run of a program without checksums goes on, and a line says so", "[checkpoint]") {
  const Runs runs;
  const std::string old = clone_path("tests/references/checkpoint_v1");
  const std::string out = runs.path("old");
  fs::copy(old, out, fs::copy_options::recursive);
  const Finished resumed =
      succeeded(run({"train_gpt", "--resume", out, "--data", old + "/letters.txt"}));
  CHECK_THAT(resumed.errors, Contains("note: ") && Contains("of update 2 has no checksums"));
  CHECK(std::count(resumed.errors.begin(), resumed.errors.end(), '\n') == 1);
  CHECK(steps_in_metrics(out) == std::vector<int>{1, 2, 3, 4});
  CHECK_THAT(succeeded(run({"checkpoint", "verify", out})).output,
             Contains("update 4: intact") && Contains("update 2: complete, but without checksums"));
}

TEST_CASE("metrics.jsonl has each line once, also if its replacement was interrupted",
          "[checkpoint]") {
  for (const char* to : {"run", "moved"}) {
    CAPTURE(to);
    const Runs runs;
    const std::string out = runs.path("run");
    runs.train("run", {"--stop-after", "2", "--evaluate-every", "0"});
    const std::string before = plangrad::nn::read_file(out + "/metrics.jsonl");
    runs.resume("run", {"--stop-after", "2"});
    // As a kill between the new manifest and the new metrics leaves them:
    fs::rename(out + "/metrics.jsonl", out + "/metrics.jsonl.plangrad-partial");
    std::ofstream(out + "/metrics.jsonl") << before;
    REQUIRE(steps_in_metrics(out) == std::vector<int>{1, 2});
    runs.resume("run", {"--out", runs.path(to)});
    CHECK(steps_in_metrics(runs.path(to)) == std::vector<int>{1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("a second run in a folder is refused, and the first one goes on", "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run");
  Running first(runs.words("run", {"--steps", "1000000", "--evaluate-every", "0"}));
  wait_for_steps(out, 3);
  check_ended(run(runs.words("run")), 2, "another run writes to " + out + ": process ");
  first.signal(SIGTERM);
  CHECK(first.finish().status == 128 + SIGTERM);
  CHECK(step_of(out) == static_cast<std::int64_t>(metrics_of(out).size()));
  CHECK_FALSE(fs::exists(out + "/plangrad.lock"));
}

TEST_CASE("a run that saves where its folder was moved away tells of the lines it lacks",
          "[checkpoint]") {
  const Runs runs;
  Running moved(runs.words("run", {"--steps", "1000000", "--evaluate-every", "0"}));
  wait_for_steps(runs.path("run"), 3);
  fs::rename(runs.path("run"), runs.path("mine"));
  moved.signal(SIGTERM);
  CHECK_THAT(moved.finish().errors, Contains("is saved, as all its weights are still here; "
                                             "metrics.jsonl has no lines of "));
}

TEST_CASE("without its manifest, a checkpoint gives way to the one before it", "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run");
  runs.train("run", {"--save-every", "2", "--stop-after", "4"});
  fs::remove(out + "/checkpoint/manifest.json");
  const Finished verified = run({"checkpoint", "verify", out});
  CHECK(verified.status == 1);
  CHECK_THAT(verified.output, Contains("manifest.json: MISSING") && Contains("update 2: intact"));
  check_ended(run({"train_gpt", "--resume", out}), 0,
              "there is no manifest.json; the checkpoint before it, of update 2, is used instead");
  runs.train("whole");
  runs.check_same("whole", "run");
}

TEST_CASE("a lost rank leaves another run's checkpoints alone, the newest one damaged",
          "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run"), manifest = out + "/checkpoint/manifest-2.json";
  runs.train("run", {"--save-every", "2", "--stop-after", "4"});
  fs::resize_file(out + "/checkpoint/manifest.json", 100);
  const std::string before = plangrad::nn::read_file(manifest);
  check_ended(run(runs.words("run", {"--seed", "5", "--data-parallel", "2", "--lose", "1@3"})), 2,
              "holds another run: continue that with --resume");
  CHECK(plangrad::nn::read_file(manifest) == before);
}

TEST_CASE("what a checkpoint says of its run reaches a terminal without control characters",
          "[checkpoint]") {
  const Runs runs;
  const std::string data = runs.folder.write("\x1b[31m.txt", varied_text());
  REQUIRE(run(tiny_run(data, runs.path("run"))).status == 0);
  const Finished shown = run({"checkpoint", "show", runs.path("run")});
  CHECK_THAT(shown.output, Contains("\\x1b[31m.txt") && !Contains("\x1b"));
}

TEST_CASE("files of others stay in a run's export, and lost lines of metrics are noticed",
          "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run");
  runs.train("run", {"--stop-after", "4"});
  runs.resume("run", {"--stop-after", "1"});
  fs::create_directories(out + "/huggingface");
  std::ofstream(out + "/huggingface/README.md") << "mine";
  runs.folder.write("run/metrics.jsonl", "{\"mine\": 1}\n");
  runs.folder.write("run/metrics.csv", "mine\n");
  check_ended(run({"train_gpt", "--resume", out}), 0,
              "metrics.jsonl is not as the run wrote it until update 5");
  CHECK(plangrad::nn::read_file(out + "/metrics.jsonl.before-1") == "{\"mine\": 1}\n");
  CHECK(plangrad::nn::read_file(out + "/metrics.csv.before-1") == "mine\n");
  CHECK(plangrad::nn::read_file(out + "/huggingface/README.md") == "mine");
  CHECK(fs::exists(out + "/huggingface/model.safetensors"));
  const std::string exported = runs.path("exported");
  CHECK(run({"checkpoint", "export", out, exported}).status == 0);
  CHECK(plangrad::nn::read_file(exported + "/model.safetensors") ==
        plangrad::nn::read_file(out + "/huggingface/model.safetensors"));
  std::ofstream(exported + "/README.md") << "mine";
  CHECK(run({"checkpoint", "export", out, exported}).status == 0);
  CHECK(plangrad::nn::read_file(exported + "/README.md") == "mine");
}

TEST_CASE("files that others have edited stay beside those that replace them", "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run"), lines = out + "/metrics.jsonl",
                    table = out + "/metrics.csv";
  std::string from = out;
  const auto told = [&] {
    return succeeded(run({"train_gpt", "--resume", from, "--out", out, "--stop-after", "1"}))
        .errors;
  };
  runs.train("run", {"--stop-after", "1"});
  std::ofstream(lines, std::ios::app) << "{\"bleu\":0.5,\"step\":1}\n";
  CHECK_THAT(told(), Contains(lines + " stays in " + lines + ".before-1"));
  CHECK_THAT(plangrad::nn::read_file(lines + ".before-1"), EndsWith("{\"bleu\":0.5,\"step\":1}\n"));
  for (const auto& [name, bytes] : files_in(out))
    if (name == "recorded.plan" || plangrad::parallel::is_event_file(name))
      std::ofstream(out + "/" + name, std::ios::app) << "mine";
  std::ofstream(table, std::ios::app) << "2,0.5,,,,,,,\n";
  CHECK_THAT(told(), Contains(table + " stays in " + table + ".before-1") &&
                         Contains("/recorded.plan.before-1") && Contains("/events.out.events."));
  CHECK_THAT(plangrad::nn::read_file(table + ".before-1"), EndsWith("2,0.5,,,,,,,\n"));
  std::ofstream(out + "/trace.json", std::ios::app) << "mine";
  const Words back{"train_gpt", "--resume", out, "--at", "2", "--stop-after", "1"};
  CHECK_THAT(succeeded(run(back)).errors, Contains("/trace.json.before-1"));
  // As a run leaves them that is killed after its last save:
  fs::remove(out + "/summary.json");
  std::ofstream(lines, std::ios::app) << "{\"drained\":\"\",\"step\":4}\n{";
  std::ofstream(table, std::ios::app) << "4,null\n4,1";
  CHECK_THAT(told(), !Contains("stays in"));
  from = runs.path("copy");  // goes on into the older run that it was copied from
  fs::copy(out, from, fs::copy_options::recursive);
  runs.resume("copy", {"--stop-after", "1"});
  fs::remove(out + "/summary.json");
  std::ofstream(lines, std::ios::app) << "{\"bleu\":0.5,\"step\":9}\n";
  CHECK_THAT(told(), Contains(lines + " stays in " + lines + ".before-2"));
}

TEST_CASE("sessions that are killed before their first save leave metrics as they are",
          "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run"), table = out + "/metrics.csv", old = table + ".before-1";
  const auto check_starts = [&](const std::string& told) {
    plangrad::parallel::SessionScope scope;
    scope.resume_from(scope.out = out);
    for (int start = 0; start < 2; ++start) {
      CHECK(plangrad::examples::keep_edited_files(scope) == told);
      plangrad::parallel::MetricFiles(out, "tokens", {});
    }
  };
  runs.train("run", {"--stop-after", "2"});
  const auto first = files_in(out);
  runs.resume("run", {"--stop-after", "2"});
  const std::string second = plangrad::nn::read_file(table);
  // As kills behind the new metrics.jsonl, and before it, leave them:
  for (const Words& names : {Words{"metrics.csv"}, {"metrics.jsonl", "metrics.csv"}}) {
    for (const std::string& name : names) {
      fs::rename(out + "/" + name, out + "/" + name + ".plangrad-partial");
      const std::string redone = name == "metrics.csv" ? "3,9\n" : "{\"loss\":9.0,\"step\":3}\n";
      runs.folder.write("run/" + name, first.at(name) + redone);
    }
    check_starts("");
  }
  fs::remove(out + "/metrics.jsonl");
  check_starts("others have changed the run's files; " + table + " stays in " + old);
  for (const std::string& file : {table, old}) CHECK(plangrad::nn::read_file(file) == second);
  CHECK_FALSE(fs::exists(table + ".before-2"));
}

TEST_CASE("a rescue replaces no metrics that it can't write anew", "[checkpoint]") {
  using plangrad::examples::keep_lost_metrics, plangrad::parallel::MetricFiles;
  const Folder folder;
  const std::string out = folder / "", table = folder / "metrics.csv", old = table + ".before-1";
  const json line{{"step", 1}, {"loss", 9}}, next{{"step", 2}, {"loss", 8}};
  MetricFiles(out, "tokens", {}).write(line);
  MetricFiles(out, "tokens", [&](const auto& take) { take(line), take(next); });
  CHECK(keep_lost_metrics(out) == "");
  fs::remove(folder / "metrics.jsonl");
  MetricFiles rescued(out, "tokens", [&](const auto& take) { take(next); });
  CHECK(keep_lost_metrics(out) == "; " + table + " stays in " + old);
  rescued.replace_earlier();
  CHECK_THAT(plangrad::nn::read_file(table), Contains("\n2,8") && !Contains("\n1,9"));
  CHECK_THAT(plangrad::nn::read_file(old), Contains("\n1,9"));
}

TEST_CASE("an export does not write or delete through a link", "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run"), mine = runs.path("mine");
  fs::create_directories(mine);
  runs.train("run", {"--stop-after", "2"});
  std::ofstream(mine + "/model.safetensors") << "mine";
  std::ofstream(mine + "/README.md") << "mine";
  fs::create_symlink(mine, out + "/huggingface");
  runs.resume("run");
  CHECK(plangrad::nn::read_file(mine + "/model.safetensors") == "mine");
  CHECK(fs::exists(mine + "/README.md"));
  CHECK_FALSE(fs::is_symlink(out + "/huggingface"));
  CHECK(fs::exists(out + "/huggingface/model.safetensors"));
}

TEST_CASE("a new run says that it replaces another, whatever is left of that one", "[checkpoint]") {
  const Runs runs;
  runs.train("run");
  fs::remove(runs.path("run/metrics.jsonl"));
  const Finished next = run(runs.words("run", {"--seed", "5", "--overwrite"}));
  CHECK_THAT(next.errors, Contains("run holds an earlier run, which stays until this one saves"));
}

TEST_CASE("a run saves by time, and keeps as many checkpoints as it is told to", "[checkpoint]") {
  for (const Words& layout :
       {Words{}, Words{"--schedule", "2bw", "--stages", "2", "--microbatches", "2"}}) {
    CAPTURE(layout);
    const Runs runs{layout + Words{"--steps", sanitized ? "100" : "300", "--evaluate-every", "0"}};
    runs.train("often", {"--save-minutes", "1e-9", "--keep", "3"});
    CHECK(plangrad::nn::manifests_of(runs.path("often") + "/checkpoint").size() == 3);
    runs.train("never", {"--save-minutes", "0", "--keep", "3"});
    CHECK(plangrad::nn::manifests_of(runs.path("never") + "/checkpoint").size() == 1);
    runs.check_same("often", "never");
  }
}

TEST_CASE("on a disk with room for two checkpoints, the older one is given up for a new one",
          "[checkpoint]") {
  const Runs runs{{"--width", "64", "--save-every", "1", "--evaluate-every", "0"}};
  runs.train("wide", {"--stop-after", "1"});
  std::size_t size = 0;
  for (const auto& [name, bytes] : files_in(runs.path("wide/checkpoint"))) size += bytes.size();
  const std::string disk = runs.path("small/checkpoint");
  const Words mounted = on_small_disk(disk, size * 5 / 2);
  std::filesystem::create_directories(disk);
  if (run(mounted + Words{"true"}).status != 0) SKIP_TEST("only root can mount a small disk");
  Words words = runs.words("small");
  words[0] = program(words[0]);
  const Finished ended =
      succeeded(run(mounted + Words{"sh", "-c", "\"$@\" && ls $0", disk} + words));
  for (const char* step : {"1", "2", "3", "4"})
    CHECK_THAT(ended.errors,
               Contains(std::string("the one of step ") + step + " is given up for a new one"));
  CHECK_THAT(ended.errors, !Contains("NOT SAVED"));
  for (const char* file : {"manifest-5.json", "model-5.safetensors", "model-6.safetensors"})
    CHECK_THAT(ended.output, Contains(file));
}

TEST_CASE("the program checkpoint verifies, shows and compares", "[checkpoint]") {
  const Runs runs;
  runs.train("one");
  runs.train("same");
  runs.train("other", {"--seed", "7", "--stop-after", "5", "--validation", runs.data});
  const std::string one = runs.path("one");
  const Finished verified = succeeded(run({"checkpoint", "verify", one}));
  CHECK_THAT(verified.output, Contains("manifest.json: update 6: intact: "));
  const Finished shown = succeeded(run({"checkpoint", "show", one + "/checkpoint"}));
  for (const char* part : {"update   6\n", "run      ", "build    0.1.0 ", "program  train_gpt\n",
                           "flag     --layers 1\n", "file     model-6.safetensors\n",
                           "tensor   wte.weight F32 (11,16) "})
    CHECK_THAT(shown.output, Contains(part));
  CHECK(succeeded(run({"checkpoint", "diff", one, runs.path("same")})).output.empty());
  const Finished other = run({"checkpoint", "diff", one, runs.path("other")});
  CHECK(other.status == 1);
  for (const char* part :
       {"update: 6, and 5\n", "flag --validation: not given, and /", "flag --seed: 1337, and 7\n",
        "tensor wte.weight: 176 of 176 elements differ, by at most "})
    CHECK_THAT(other.output, Contains(part));
  CHECK_THAT(run({"checkpoint", "verify", runs.path("none")}).errors,
             Contains("holds no checkpoint"));
  CHECK_THAT(run({"checkpoint"}).errors, Contains("no command given"));
}

TEST_CASE("the program checkpoint names and verifies what is saved aside", "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run"), aside = out + "/diverged/checkpoint";
  runs.train("run", {"--stop-after", "2"});
  runs.train("run/diverged", {"--stop-after", "1"});
  const Words list{"checkpoint", "list", out}, verify{"checkpoint", "verify", out};
  const std::string update = "update 1: diverged/checkpoint/manifest.json, ";
  CHECK_THAT(succeeded(run(list)).output,
             StartsWith("update 2: manifest.json") && Contains(update));
  CHECK_THAT(succeeded(run(verify)).output,
             Contains("\ndiverged/checkpoint/manifest.json: update 1: intact"));
  fs::remove(out + "/checkpoint/manifest.json");  // the only one
  for (const Words& each : {list, verify})
    CHECK_THAT(run(each).output, StartsWith("manifest.json: MISSING: ") &&
                                     Contains("diverged/checkpoint/manifest.json"));
  CHECK(run(verify).status == 1);
  fs::remove_all(out + "/checkpoint");  // as of a run that diverged before its first save
  CHECK_THAT(succeeded(run(list)).output, StartsWith(update));
  fs::resize_file(aside + "/model-1.safetensors", 100);
  const Finished damaged = run(verify);
  CHECK(damaged.status == 1);
  CHECK_THAT(damaged.output, StartsWith("diverged/checkpoint/manifest.json: DAMAGED: "));
}

TEST_CASE("the program checkpoint verifies the folder of a run that saves", "[checkpoint]") {
  const Runs runs;
  const std::string out = runs.path("run");
  Running saves(runs.words(
      "run", {"--steps", "1000000", "--evaluate-every", "0", "--save-every", "1", "--quiet"}));
  wait_for_steps(out, 6);
  for (int i = 0; i < 50; ++i) succeeded(run({"checkpoint", "verify", out}));
  saves.signal(SIGXCPU);
  CHECK(saves.finish().status == 128 + SIGXCPU);
}

TEST_CASE("a save counts, whatever can't be replaced after it", "[checkpoint]") {
  const Runs runs;
  const std::string lines = runs.path("run/metrics.jsonl");
  for (const std::string& file : {runs.path("run/huggingface/plangrad-checksums.txt"), lines}) {
    runs.train("run");
    Running saves(runs.words(
        "run", {"--overwrite", "--steps", "1000000", "--evaluate-every", "0", "--quiet"}));
    const fs::path written = lines + plangrad::nn::partial;  // with a line, an update is done
    while (!fs::exists(written) || fs::is_empty(written))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    fs::remove(file);
    fs::create_directory(file);
    saves.signal(SIGXCPU);
    const char* told = file == lines ? "metrics.jsonl.before-1" : "is saved, but can't ";
    CHECK_THAT(saves.finish().errors, Contains(told) && !Contains("NOT SAVED"));
    CHECK(step_of(runs.path("run")) > 0);
    CHECK_FALSE(fs::exists(written));  // the lines are replaced all the same
    fs::remove_all(runs.path("run"));
  }
}

TEST_CASE("a run that diverges leaves its good checkpoints, and goes back to one", "[checkpoint]") {
  const Runs runs{{"--save-every", "2", "--evaluate-every", "0"}};
  runs.train("run", {"--steps", "4"});
  const std::string out = runs.path("run");
  const Words resume{"train_gpt", "--resume", out, "--data", runs.data};
  for (const Words& ranks : {Words(), Words{"--ranks", "2", "--data-parallel", "2"}}) {
    const Finished ended =
        run(resume + ranks + Words{"--steps", "9", "--learning-rate", "1e20", "--clip", "0"});
    CHECK(ended.status == 3);
    CHECK_THAT(ended.errors,
               Contains("is saved aside, in " + out + "/diverged") &&
                   Contains("--resume " + out + " continues from update 4, and --at 2 "));
    CHECK(step_of(out) == 4);
    CHECK(step_of(out + "/diverged") == 5);
    fs::remove_all(out + "/diverged");
  }
  // One that was resumed at an older update saves aside, too, and again.
  for (int tries = 0; tries < 2; ++tries) {
    const Finished older =
        run(resume + Words{"--at", "2", "--steps", "9", "--learning-rate", "1e20", "--clip", "0"});
    CHECK(older.status == 3);
    CHECK_THAT(older.errors,
               Contains("update 3 is saved aside") && Contains("note: the first save") &&
                   Contains("go back: --resume " + out + " --at 2 continues from update 2\n"));
    CHECK(step_of(out) == 4);
  }
  // Another update goes beside it, and no file or link of others is in the way.
  const Words diverges{"--steps", "9", "--learning-rate", "1e20", "--clip", "0"};
  check_ended(run(resume + diverges), 3, "is saved aside, in " + out + "/diverged-2");
  CHECK(step_of(out + "/diverged") == 3);
  fs::rename(out + "/diverged", runs.path("elsewhere"));
  fs::create_directory_symlink(runs.path("elsewhere"), out + "/diverged");
  fs::remove_all(out + "/diverged-2");
  runs.folder.write("run/diverged-2/metrics.csv", "mine");
  runs.folder.write("run/diverged-3", "mine");
  fs::create_symlink("gone", out + "/diverged-4");
  for (const Words& at : {Words{}, {"--at", "2"}})  // 3 is what the link leads to
    check_ended(run(resume + at + diverges), 3,
                "is saved aside, in " + out + "/diverged-" + (at.empty() ? "5" : "6"));
  CHECK(plangrad::nn::read_file(out + "/diverged-2/metrics.csv") == "mine");
  CHECK_FALSE(fs::exists(out + "/gone"));
  // One that fails with nothing saved since names the older update, too.
  const Words lost{"--at", "2", "--stages", "2", "--steps", "9", "--lose", "1@4"};
  for (const std::string& to : {out, runs.path("moved")})
    check_ended(run(resume + lost + Words{"--out", to}), 1,
                "holds stage 1; the newest save is of update 2; continue with --resume " + out +
                    " --at 2\n");
  CHECK_THAT(run(runs.words("new", {"--at", "2"})).errors, Contains("--at says from which update"));
  CHECK(output_of({"checkpoint", "list", out}).starts_with("update 4: manifest.json, "));
  CHECK_THAT(output_of({"checkpoint", "list", out}), Contains("update 2: manifest-2.json, "));
  CHECK_THAT(run(resume + Words{"--at", "3"}).errors, Contains("has no checkpoint of update 3"));
  runs.resume("run", {"--at", "2", "--steps", "3"});  // replaces what was not continued from
  CHECK(step_of(out) == 3);
  CHECK(steps_in_metrics(out) == std::vector<int>{1, 2, 3});
}

TEST_CASE("a run that diverges from its newest save names an older one", "[checkpoint]") {
  const Runs runs{{"--save-every", "2", "--evaluate-every", "0", "--clip", "0", "--steps", "9"}};
  const auto check_advice = [&](const std::string& name, const Words& more, const auto& advice) {
    check_ended(run(Words{"train_gpt", "--resume", runs.path(name)} + more), 3, advice);
  };
  const std::string back = "the run diverged, so go back: --resume " + runs.path("run");
  const Words broken{"--stop-after", "1", "--learning-rate", "1e20", "--keep", "3"};
  const Words aside{"--learning-rate", "1e20", "--save-every", "0"};
  runs.train("run", {"--stop-after", "4"});
  runs.resume("run", broken);
  for (const Words& layout : {Words(), Words{"--stages", "2"}})
    check_advice("run", layout, back + " --at 4\n");
  check_advice("run", aside + Words{"--at", "4"}, "update 5 is saved aside");
  check_advice("run/diverged", {}, back + " --at 4\n");
  check_advice(
      "run",
      {"--at", "4", "--out", runs.path("next"), "--save-every", "1", "--learning-rate", "1e20"},
      back + " --at 4\n");
  runs.train("one", {"--stop-after", "1"});
  check_advice("one", aside, "/one continues from update 1\n");
  runs.train("bad", broken);
  check_advice("bad", {}, "no update before 1 is saved in " + runs.path("bad") + ", so begin anew");
}

TEST_CASE("a run goes on with the validation data that it began with", "[checkpoint]") {
  const Runs runs;
  runs.train("run", {"--stop-after", "1"});
  std::string text = varied_text();
  std::reverse(text.end() - 50, text.end());  // of the tenth that validates
  const std::string other = runs.folder.write("other.txt", text);
  check_ended(run({"train_gpt", "--resume", runs.path("run"), "--data", other}), 2,
              "the run was validated on another text than that of");
  // With a text of its own to validate, the run would train on the tenth that it keeps apart.
  for (const std::string& validation : {runs.data, runs.folder.write("new.txt", "characters")}) {
    const Finished whole =
        run({"train_gpt", "--resume", runs.path("run"), "--validation", validation});
    CHECK(whole.status == 2);
    CHECK_THAT(whole.errors, Contains("the run began without --validation, so it trains on the "
                                      "first nine tenths of its --data") &&
                                 Contains("leave out --validation"));
  }
}

TEST_CASE("an error about a flag that a checkpoint saved names the checkpoint, and the flag helps",
          "[checkpoint]") {
  const Runs runs{{"--schedule", "gpipe", "--stages", "2", "--microbatches", "2"}};
  runs.train("run", {"--stop-after", "2"});
  const std::string out = runs.path("run"), manifest = "run/checkpoint/manifest.json";
  const json good = json::parse(plangrad::nn::read_file(runs.path(manifest)));
  const auto change = [&](const std::string& flag, const json& value) {
    json changed = good;
    changed["run"]["flags"][flag] = value;
    runs.folder.write(manifest, signed_manifest(changed));
  };
  const Words resume{"train_gpt", "--resume", out, "--out", runs.path("new")};
  const std::tuple<std::string, json, Words> flags[] = {
      {"--schedule", "gone", {"1f1b", "--stages", "2"}},
      {"--stages", 0, {"3"}},
      {"--microbatches", 3, {"4"}},
      {"--warmup", 99, {"1"}},
      {"--keep", 0, {"2"}}};
  for (const auto& [flag, bad, other] : flags) {
    change(flag, bad);
    const Finished refused = run(resume);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.errors, Contains("; the checkpoint " + out + "/checkpoint says --") &&
                                   Contains(flag) && EndsWith(": give that anew here\n"));
    runs.succeed(resume + Words{"--overwrite", flag} + other);
  }
  change("--stages", 9);  // the remedy, "fewer --stages, --chunks or --ranks", is not blamed
  CHECK_THAT(run(resume).errors,
             EndsWith("/checkpoint says --layers, which --resume can't change\n"));
  change("--of-another-version", 1);
  check_ended(run(resume), 2, "--of-another-version is no flag that this version saves; use the");
}

TEST_CASE("a run that is locked is not read, but refused", "[checkpoint]") {
  const Runs runs;
  runs.train("run", {"--stop-after", "1"});
  const std::string out = runs.path("run");
  const plangrad::parallel::FolderLock lock(out);
  fs::remove(out + "/checkpoint/manifest.json");  // which would be missed otherwise
  CHECK_THAT(run({"train_gpt", "--resume", out}).errors, Contains("another run writes to " + out));
}

TEST_CASE("flags with their greatest numbers do not end a resumed run early", "[checkpoint]") {
  const Runs runs{{"--steps", "3"}};
  runs.train("run", {"--stop-after", "1"});
  for (const char* flag :
       {"--stop-after", "--save-every", "--evaluate-every", "--check", "--keep"}) {
    const std::string out = runs.path(std::string("out") + flag);
    runs.resume("run", {"--out", out, flag, std::to_string(std::numeric_limits<int>::max())});
    CHECK(step_of(out) == 3);
  }
  for (const char* flag : {"--save-minutes", "--timeout"}) {
    const std::string out = runs.path(std::string("out") + flag);
    runs.resume("run", {"--out", out, flag, "1000000"});
    CHECK(step_of(out) == 3);
  }
}

TEST_CASE("borders of a session at the ends of numbers", "[checkpoint]") {
  using plangrad::parallel::Border;
  using plangrad::parallel::next_multiple;
  CHECK(next_multiple(Border::never, 7) == Border::never);
  CHECK(next_multiple(5, Border::never - 2) == Border::never);
  plangrad::parallel::SessionScope scope;
  scope.steps = 20, scope.stop_after = Border::never;
  CHECK(plangrad::parallel::Borders(scope, 4, {}).last() == 20);
}
