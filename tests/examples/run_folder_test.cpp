// Where a run goes that names no folder, and what sample_gpt reads if it is given none.
#include <csignal>
#include <regex>
#include <set>

#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"
#include "tests/folders.h"
#include "tests/manifests.h"

using namespace plangrad::tests;
namespace fs = std::filesystem;

namespace {

/// Runs a program in a folder.
Finished run_in(const std::string& folder, const Words& words) {
  return run(Words{"/usr/bin/env", "-C", folder, program(words[0])} +
             Words(words.begin() + 1, words.end()));
}

/// The command of a run of a moment, without --out.
Words without_out(const std::string& data, const Words& more) {
  Words words = tiny_run(data, "", more);
  const auto at = std::find(words.begin(), words.end(), "--out");
  words.erase(at, at + 2);
  return words;
}

}  // namespace

TEST_CASE("each run gets a folder of its own, and runs/latest is the newest") {
  const Runs runs;
  const std::string here = runs.path("here");
  fs::create_directories(here);
  std::set<std::string> names;
  for (const char* schedule : {"1f1b", "1f1b", "gpipe"}) {
    const Finished result =
        succeeded(run_in(here, without_out(runs.data, {"--schedule", schedule, "--stages", "2"})));
    const std::string latest = fs::read_symlink(here + "/runs/latest").string();
    CHECK(std::regex_match(
        latest, std::regex(R"(\d{4}-\d\d-\d\d-\d{6}-)" + std::string(schedule) + R"((-\d)?)")));
    CHECK(names.insert(latest).second);
    // The folder's name is in the first line and in the last.
    const std::size_t first = result.output.find("runs/" + latest);
    CHECK(first < result.output.find('\n'));
    CHECK(result.output.rfind("runs/" + latest) > result.output.find("validation loss"));
    CHECK(summary_of(here + "/runs/" + latest).contains("validation_loss"));
  }
  CHECK(names.size() == 3);

  check_ended(run_in(here, {"sample_gpt", "--tokens", "5"}), 0, "the newest run in runs/");
  succeeded(run_in(here, {"train_gpt", "--resume", "runs/latest/checkpoint", "--steps", "7"}));
  CHECK(metrics_of(here + "/runs/latest").back()["step"] == 7);
  const fs::path run = fs::canonical(here + "/runs/latest");
  fs::remove(here + "/runs/latest");  // as a copy that follows links makes it:
  fs::rename(run, here + "/runs/latest");
  check_ended(run_in(here, {"sample_gpt", "--tokens", "5"}), 0, "from latest, the newest run");
}

TEST_CASE("a run makes runs/, however --out spells it") {
  const Runs runs;
  for (const std::string out : {"runs/x/", "./runs/x", "$PWD/runs/x"}) {
    const std::string here = runs.path(out.substr(0, 4) + "here");
    fs::create_directories(here);
    const std::string spelled = out[0] == '$' ? here + "/runs/x" : out;
    succeeded(run_in(here, without_out(runs.data, {"--out", spelled})));
    CHECK(step_of(here + "/runs/x") == 6);
  }
}

TEST_CASE("a file or folder runs/latest that is no link stays, and a line says so") {
  const Runs runs;
  for (const char* name : {"runs/latest", "runs/latest/global_step500"}) {
    fs::remove(runs.path("runs/latest"));
    runs.folder.write(name, "mine");
    check_ended(run_in(runs.path(""), without_out(runs.data, {})), 0,
                "note: runs/latest is no link that a run left: it stays as it is");
    CHECK(plangrad::nn::read_file(runs.path(name)) == "mine");
  }
  CHECK(std::distance(fs::directory_iterator(runs.path("runs")), {}) == 3);
}

TEST_CASE("a copy of a checkpoint continues no other one, however its folder is named") {
  const Runs runs;
  const std::string out = runs.path("run"), copy = out + "/checkpoint.good";
  runs.train("run", {"--stop-after", "2"});
  fs::copy(out + "/checkpoint", copy);
  runs.resume("run", {"--stop-after", "1"});
  const Words resume{"train_gpt", "--resume", copy};
  for (const Words& words : {resume, Words{"elastic"} + resume})
    check_untouched(out, words, "move it to NEW/checkpoint, and give --resume NEW");
  runs.folder.write("run/manifest.json", "{\"mine\": 1}");
  runs.resume("run", {"--stop-after", "1"});
  succeeded(run_in(out, {"train_gpt", "--resume", "checkpoint", "--stop-after", "1"}));
  runs.resume("run/checkpoint/");
  CHECK(losses_by_update(out).size() == 6);
  fs::create_directory(runs.path("new"));
  fs::rename(copy, runs.path("new/checkpoint"));
  runs.folder.write("new/metrics.csv", "mine");
  const Words again{"train_gpt", "--resume", runs.path("new"), "--data", runs.data};
  for (const Words& words : {Words{}, Words{"elastic"}})
    check_untouched(runs.path("new"), words + again,
                    "has metrics.csv, which the run would replace");
  fs::remove(runs.path("new/metrics.csv"));
  runs.folder.write("new/metrics.jsonl", "{\"epoch\":1}\n");
  check_untouched(runs.path("new"), again, "has metrics.jsonl, which the run would replace");
  runs.resume("new", {"--stop-after", "1"});
  CHECK(step_of(runs.path("new")) == 3);
}

TEST_CASE("without any run, sample_gpt says how to make one") {
  const Folder folder;
  fs::create_directories(folder / "empty");
  check_ended(run_in(folder / "empty", {"sample_gpt"}), 2, "train one with train_gpt --data FILE");
}

TEST_CASE("a run that is refused makes no folder") {
  const Folder folder;
  fs::create_directories(folder / "here");
  const std::string data = folder.write("text.txt", varied_text());
  check_ended(
      run_in(folder / "here", without_out(data, {"--stages", "9"})), 2,
      "a GPT of --layers 1 has 3 parts to cut between: the embedding, 1 block and the head; "
      "use at most 3 stages (fewer --stages, --chunks or --ranks), or at least --layers 7");
  CHECK(files_in(folder / "here").empty());
}

TEST_CASE("each form of a run's metrics tells of all its updates, however often it is resumed") {
  const Runs runs;
  runs.train("whole", {"--evaluate-every", "2"});
  runs.train("parts", {"--evaluate-every", "2", "--stop-after", "3"});
  runs.resume("parts");
  auto rows = [&](const std::string& name) {
    const std::string table = plangrad::nn::read_file(runs.path(name) + "/metrics.csv");
    return std::count(table.begin(), table.end(), '\n');
  };
  CHECK(rows("whole") == 1 + static_cast<long>(metrics_of(runs.path("whole")).size()));
  CHECK(rows("parts") == rows("whole"));
  for (const char* name : {"whole", "parts"}) {
    int events = 0;
    for (const auto& [file, bytes] : files_in(runs.path(name)))
      events += file.starts_with("events.out.tfevents.");
    CHECK(events == 1);
  }
}

TEST_CASE("chapter 3 lists every key of metrics.jsonl") {
  const Runs runs;
  runs.train("run", {"--evaluate-every", "3", "--data-parallel", "2", "--prune", "0.5", "--samo",
                     "--codec", "adaptive:64:2"});
  const std::string chapter =
      plangrad::nn::read_file(clone_path("tutorials/03-where-the-time-and-the-memory-go.md"));
  std::set<std::string> keys;
  for (const nlohmann::json& line : metrics_of(runs.path("run")))
    for (const auto& [key, value] : line.items()) keys.insert(key);
  CHECK(keys.size() >= 10);
  for (const std::string& key : keys) CHECK_THAT(chapter, Contains("`" + key + "`"));
}

TEST_CASE("progress tells of the bubble and of memory, and of a validation once") {
  const Runs runs;
  const Finished result =
      run(runs.words("run", {"--stages", "2", "--steps", "40", "--evaluate-every", "20"}));
  CHECK_THAT(result.output, Contains("  bubble ") && Contains("  fullest rank "));
  std::size_t count = 0;
  for (std::size_t at = 0; (at = result.output.find("  validation ", at)) != std::string::npos;
       ++at)
    ++count;
  CHECK(count == 1);  // of update 20; the last one has a line of its own
}

TEST_CASE("a new run replaces no other one, unless it is told to") {
  const Runs runs;
  const std::string out = runs.path("run");
  runs.train("run");
  const std::string ways = "continue that with --resume " + out +
                           ", name another folder, or give it up with --overwrite";
  check_untouched(out, runs.words("run", {"--seed", "5"}), "holds another run: " + ways);
  check_untouched(out, runs.words("run", {"--elastic"}), ways);
  runs.train("other", {"--seed", "5", "--save-every", "2"});
  const Words resume{"train_gpt", "--resume", runs.path("other"), "--data", runs.data,
                     "--steps",   "11",       "--stop-after",     "1",      "--out",
                     out};
  check_untouched(out, resume, ways);
  runs.succeed(resume + Words{"--overwrite"});
  CHECK(losses_by_update(out).size() == 7);
  // A folder that holds an older state of the run loses nothing; a newer one or a fork would.
  fs::copy(runs.path("other"), runs.path("copy"), fs::copy_options::recursive);
  runs.resume("other", {"--steps", "9"});
  check_untouched(out, resume, "holds a fork of this run: " + ways);
  runs.succeed(resume + Words{"--out", runs.path("copy")});
  CHECK(step_of(runs.path("copy")) == 10);
  runs.resume("other", {"--steps", "11", "--out", out});
  CHECK(step_of(out) == 11);
  check_untouched(out, resume, "holds a newer update of this run: " + ways);
  runs.succeed(resume + Words{"--overwrite"});
  CHECK(step_of(out) == 10);
}

TEST_CASE("a run replaces no files that no run left") {
  const Runs runs;
  for (const std::string name :
       {"metrics.jsonl", "metrics.csv", "summary.json", "report.html",
        "huggingface/model.safetensors", "huggingface", "checkpoint/model-6.safetensors"}) {
    const std::string out = runs.path("of " + std::to_string(name.size()) + name.substr(0, 3));
    fs::create_directories(fs::path(out + "/" + name).parent_path());
    std::ofstream(out + "/" + name) << "mine";
    const Words words = tiny_run(runs.data, out, {"--steps", "2"});
    check_untouched(out, words, "or replace it with --overwrite");
    runs.succeed(words + Words{"--overwrite"});
    CHECK(step_of(out) == 2);
  }
  runs.folder.write("beside/diverged", "mine");
  runs.succeed(tiny_run(runs.data, runs.path("beside")));
  CHECK(plangrad::nn::read_file(runs.path("beside/diverged")) == "mine");
  fs::create_directories(runs.path("taken/metrics.csv"));
  check_untouched(runs.path("taken"), tiny_run(runs.data, runs.path("taken"), {"--overwrite"}),
                  "metrics.csv is a folder: move it away");
  // The export of another run, which is intact:
  runs.train("run", {"--steps", "3"});
  const std::string out = runs.path("out");
  fs::create_directory(out);
  fs::copy(runs.path("run/huggingface"), out + "/huggingface");
  const Words resume{"train_gpt", "--resume", runs.path("run"), "--data", runs.data,
                     "--steps",   "4",        "--out",          out};
  for (const Words& words : {tiny_run(runs.data, out, {"--layers", "2"}), resume})
    check_untouched(out, words, "has huggingface/plangrad-checksums.txt, which the run would");
  runs.succeed(resume + Words{"--overwrite"});
  CHECK(step_of(out) == 4);
}

TEST_CASE("others' events for TensorBoard stay, and a run's own are written anew") {
  const Runs runs;
  const std::string out = runs.path("run"), start = "run/events.out.tfevents.";
  fs::create_directories(out);
  runs.folder.write(start + "1700000000.host.1", "theirs");
  REQUIRE(run(runs.words("run", {"--stop-after", "3"})).status == 0);
  for (const char* name : {"1700000000.plangrad", "9999999999.plangrad"})  // of other runs
    runs.folder.write(start + name, "theirs");
  for (const char* name : {"metrics.jsonl", "metrics.csv", "events", "summary.json", "report.html"})
    runs.folder.write(std::string("run/") + name + ".partial", "theirs, too");
  runs.resume("run", {"--stop-after", "1"});
  runs.resume("run");
  const auto count = [&](const std::string& start, const std::string& bytes) {
    return std::ranges::count_if(files_in(out), [&](const auto& file) {
      return file.first.find(start) == 0 && (bytes.empty() || file.second == bytes);
    });
  };
  CHECK(count("", "theirs, too") == 5);
  CHECK(count("events.out.tfevents.", "theirs") == 3);
  CHECK(count("events.out.tfevents.", "") == 4);
  // Of a checkpoint that names none, as earlier versions left it, the newest one is not replaced.
  auto manifest = nlohmann::json::parse(plangrad::nn::read_file(out + "/checkpoint/manifest.json"));
  manifest["run"]["metrics"].erase("events");
  runs.folder.write("run/checkpoint/manifest.json", signed_manifest(manifest));
  runs.resume("run", {"--steps", "7"});
  CHECK(count("events.out.tfevents.", "theirs") == 3);
  CHECK(count("events.out.tfevents.", "") == 5);
}

TEST_CASE("a run that never saved is begun anew by the same command") {
  const Runs runs;
  const Words words = runs.words("run", {"--save-minutes", "0", "--evaluate-every", "0"});
  Running killed(words + Words{"--steps", "1000000"});
  wait_for_steps(runs.path("run"), 3);
  killed.signal(SIGKILL);
  killed.finish();
  for (const std::string name : {"recorded.plan", "trace.json", "plan.html"}) {
    runs.folder.write("run/" + name, "mine");  // such a run has not written it
    check_untouched(runs.path("run"), words, "has " + name + ", which the run would replace");
    fs::remove(runs.path("run/" + name));
  }
  const std::string theirs = "run/events.out.tfevents.9999999999.plangrad";
  runs.folder.write(theirs, "mine");
  fs::last_write_time(runs.path(theirs), fs::file_time_type::clock::now() + std::chrono::hours(1));
  check_ended(run(words), 0, "holds an earlier run, which stays until this one saves");
  CHECK(losses_by_update(runs.path("run")).size() == 6);
  CHECK(plangrad::nn::read_file(runs.path(theirs)) == "mine");
  fs::remove(runs.path(theirs));
  const Words on{"train_gpt", "--resume", runs.path("run"), "--out", runs.path("next")};
  Running next(on + Words{"--save-minutes", "0", "--steps", "1000000"});
  wait_for_steps(runs.path("next"), 9);
  next.signal(SIGKILL);
  next.finish();
  runs.folder.write("next/summary.json", R"({"steps": 9, "session_steps": 3, "events": [
      {"step": 6, "text": "checkpoint saved"}]})");  // by the run that this one goes on from
  succeeded(run(on + Words{"--steps", "9"}));
  fs::remove_all(runs.path("run/checkpoint"));  // its metrics are those of a run that has ended
  check_untouched(runs.path("run"), words, "has metrics.jsonl, which the run would replace");
  // Nor is one begun anew that saved, was killed, and has its checkpoints elsewhere now.
  runs.folder.write("run/summary.json", R"({"state":"running"})");
  check_untouched(runs.path("run"), words, "has metrics.jsonl, which the run would replace");
  fs::create_directory(runs.path("run/checkpoint"));
  runs.folder.write("run/summary.json", R"({"events":[{"text":"checkpoint saved"}]})");
  check_untouched(runs.path("run"), words, "has metrics.jsonl, which the run would replace");
  runs.folder.write("run/checkpoint/model-6.safetensors", "weights");
  check_untouched(runs.path("run"), words, "is of no checkpoint that the run could continue");
}

TEST_CASE("a resumed run says where its learning rate leaves the course that it had") {
  const Runs runs;
  runs.train("run", {"--stop-after", "4", "--learning-rate", "0.01"});
  auto first_line = [&](const Words& more) {
    const Words words{"train_gpt", "--resume", runs.path("run"), "--stop-after", "1", "--out"};
    const Finished resumed = succeeded(run(words + Words{runs.path("next"), "--overwrite"} + more));
    return resumed.output.substr(0, resumed.output.find('\n'));
  };
  const std::string leaves = "the learning rate leaves its course: ";
  CHECK_THAT(first_line({}), !Contains(leaves));
  CHECK_THAT(first_line({"--seed", "1337", "--learning-rate", "0.01"}), !Contains(leaves));
  CHECK_THAT(first_line({"--steps", "60"}), StartsWith(leaves) &&
                                                Contains(" in update 5 instead of ") &&
                                                Contains(", by --steps 60 instead of 6; "));
  CHECK_THAT(first_line({"--learning-rate", "0.1"}),
             Contains("by --learning-rate 0.1 instead of 0.01; "));
  CHECK_THAT(first_line({"--min-learning-rate", "0.002"}),
             Contains("by --min-learning-rate 0.002 instead of its default; "));
  CHECK_THAT(first_line({"--warmup", "5"}), Contains("by --warmup 5 instead of 2; "));
}
