// Where a run goes that names no folder, and what sample_gpt reads if it is given none.
#include <regex>
#include <set>

#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"
#include "tests/folders.h"

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
        run_in(here, without_out(runs.data, {"--schedule", schedule, "--stages", "2"}));
    INFO(result.errors);
    REQUIRE(result.status == 0);
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

  const Finished sample = run_in(here, {"sample_gpt", "--tokens", "5"});
  CHECK(sample.status == 0);
  CHECK_THAT(sample.errors, Contains("the newest run in runs/"));
  const Finished resumed =
      run_in(here, {"train_gpt", "--resume", "runs/latest/checkpoint", "--steps", "7"});
  INFO(resumed.errors);
  CHECK(resumed.status == 0);
  CHECK(metrics_of(here + "/runs/latest").back()["step"] == 7);
}

TEST_CASE("without any run, sample_gpt says how to make one") {
  const Folder folder;
  fs::create_directories(folder / "empty");
  const Finished result = run_in(folder / "empty", {"sample_gpt"});
  CHECK(result.status == 2);
  CHECK_THAT(result.errors, Contains("train one with train_gpt --data FILE"));
}

TEST_CASE("a run that is refused makes no folder") {
  const Folder folder;
  fs::create_directories(folder / "here");
  const std::string data = folder.write("text.txt", varied_text());
  const Finished result = run_in(folder / "here", without_out(data, {"--stages", "9"}));
  CHECK(result.status == 2);
  CHECK_THAT(result.errors,
             Contains("a GPT of --layers 1 has 3 parts to cut between: the embedding, "
                      "1 block and the head; use at most 3 stages (fewer --stages, --chunks or "
                      "--ranks), or at least "
                      "--layers 7"));
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
