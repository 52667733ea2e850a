// What an earlier run left, damaged: lines of metrics, and the numbers of its codec.
// Not here: a checkpoint's own files (tests/nn/checkpoint_test.cpp).
#include <sys/resource.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "parallel/observers/run_log.h"
#include "parallel/schedules/schedule.h"
#include "parallel/session/saving.h"
#include "tests/catch.h"
#include "tests/metric_lines.h"
#include "tests/sanitized.h"
#include "tests/temporary_folder.h"

using namespace plangrad;
using namespace plangrad::parallel;
using nlohmann::json;
using tests::metrics_of, tests::TemporaryFolder;

TEST_CASE("a run goes on from metrics whose values are of other kinds", "[session]") {
  const TemporaryFolder folder;
  nn::write_file(folder.path / "metrics.jsonl", R"({"step": 1, "loss": null, "seconds": "long"})"
                                                "\n"
                                                R"({"step": 2, "loss": 3, "seconds": null})"
                                                "\n"
                                                R"({"step": 2, "drained": 5})"
                                                "\n"
                                                R"({"step": 1, "loss": "another program's"})"
                                                "\n"
                                                R"({"step": 1.5})"
                                                "\n" +
                                                    std::string(300'000, '['));
  nn::make_folder(folder.path / "checkpoint");
  commit_checkpoint(folder.path / "checkpoint", {2}, json::object(),
                    {nn::write_checkpoint_file(folder.path / "checkpoint", "model", 2, {}, {})});
  SessionScope scope;
  scope.resume_from(folder.path);
  scope.out = folder.path / "out";
  nn::make_folder(scope.out);
  RunLog log({.quiet = true});
  std::vector<json> lines;
  log.on_line([&](const json& line) { lines.push_back(line); });
  log.open(scope, 2);
  REQUIRE(lines.size() == 3);  // one is about no update, one about an earlier one
  CHECK(lines[2].contains("drained"));
  CHECK(metrics_of(scope.out / "metrics.jsonl") == lines);
}

TEST_CASE("lines that are no run's end the reading of a file, not the memory", "[session]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path / "metrics.jsonl";
  auto refused = [&](const std::string& bytes, std::uintmax_t size, const char* part) {
    nn::write_file(path, bytes);
    std::filesystem::resize_file(path, size);
    CHECK_THROWS_WITH(metrics_of(path),
                      Contains(path.string() + " is no metrics.jsonl of a run") && Contains(part));
  };
  refused("{}\n", 10'000'000'000, "a line has more than 4194304 bytes");
  std::string lines;
  for (int i = 0; i <= 500; ++i) lines += "{}\n\n";  // no step, and no JSON
  refused(lines, lines.size(), "more than 1000 of its lines tell of no step");
  // Bytes of a written file are compared by parts, however many there are.
  lines.clear();
  const int updates = tests::sanitized ? 200'000 : (1 << 21) + 1;  // a run may make any number
  for (int step = 1; step <= updates; ++step) lines += text("{\"step\":", step, "}\n");
  nn::write_file(path, lines);
  const json written{{"bytes", lines.size()}, {"checksum", nn::checksum_of(lines)}};
  std::string problem;
  int count = 0;
  earlier_metrics(folder.path, updates, written, problem)([&](const json&) { ++count; });
  CHECK(count == updates);
  CHECK(problem.empty());
  std::fstream(path, std::ios::in | std::ios::out).seekp(2 << 20) << "x";
  earlier_metrics(folder.path, 1, written, problem);
  CHECK_THAT(problem, Contains("is not as the run wrote it until update 1"));
  std::filesystem::remove(path);  // as beside a checkpoint/ that was copied alone
  earlier_metrics(folder.path, 1, written, problem)([](const json&) { FAIL(); });
  CHECK(problem == "there is no " + path.string() + " with lines until update 1");
}

TEST_CASE("millions of small lines take no gigabytes when a run goes on from them", "[session]") {
  const TemporaryFolder folder;
  std::string lines, problem;
  for (int i = 0; i < 300'000; ++i) lines += "{\"step\":1}\n";
  nn::write_file(folder.path / "metrics.jsonl", lines);
  const auto peak = [] {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;  // MB
  };
  const auto before = peak();
  MetricFiles files(folder.path, "tokens", earlier_metrics(folder.path, 1, nullptr, problem));
  CHECK(nn::read_file(files.path()) == lines);
  if (!tests::sanitized) CHECK(peak() - before < 50);
}

TEST_CASE("a codec's numbers that no run wrote are refused", "[session]") {
  const nn::GptConfig config{1, 1, 4, 4, 5, 0, true};
  const Training training(nn::gpt(config), 1);
  const Plan plan = make_plan("data", {.width = 2, .codec = parse_codec("topk:0.5")});
  const json rank{{"thresholds", json::object()}, {"uses", 0}};
  const json layout{{"codec", "topk:0.5"}, {"ranks", 2}, {"per_step", 2}};
  auto refusal = [&](const json& codec) -> std::string {
    const TemporaryFolder folder;
    commit_checkpoint(folder.path, 1, {{"codec", codec}},
                      {nn::write_checkpoint_file(folder.path, "model", 1, {}, {})});
    try {
      lost_residual(nn::Checkpoint(folder.path), plan, training);
    } catch (const autograd::Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal({{"layout", layout}, {"numbers", {rank, rank}}}) == "");
  CHECK_THAT(refusal({{"layout", layout}, {"numbers", {rank}}}),
             Contains("it has a codec's numbers of 1 rank, and says that there were 2"));
  json many = layout;
  many["ranks"] = 2'000'000'000;
  CHECK_THAT(refusal({{"layout", many}, {"numbers", {rank, rank}}}), Contains("were 2000000000"));
  many["ranks"] = 1e300;
  CHECK_THAT(refusal({{"layout", many}, {"numbers", {rank, rank}}}), Contains("whole number"));
  for (const json& codec :
       {json("topk"), json{{"layout", layout}}, json{{"layout", layout}, {"numbers", {1, 2}}}})
    CHECK_THAT(refusal(codec), Contains("the checkpoint is damaged: its codec's numbers"));
}
