// A run whose disk is full for a while, or whose metrics others change while it trains. Not here:
// what a checkpoint's folder holds when a save fails (tests/nn/checkpoint_test.cpp), and lines of
// metrics (event_file_test.cpp).
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/checkpoint_tensors.h"
#include "tests/metric_lines.h"
#include "tests/parallel/support/small_session.h"
#include "tests/small_disk.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

using Change = std::function<void(std::optional<SmallDisk>& disk)>;

/// Twelve updates with a save after each third one. A disk that `change` makes small after the
/// first save has room again when plans of updates behind the seventh are made.
void train(
    const RunFolder& folder, const Change& change = [](auto&) {}) {
  std::mutex mutex;
  std::optional<SmallDisk> disk;
  run_sessions(small_training(2), folder, 2, [&](int, SessionSettings& settings) {
    settings.run = json::object();
    settings.steps = 12;
    settings.save_every = 3;
    settings.plans = std::make_shared<WatchedPlans>([&](int first, int steps) {
      std::lock_guard lock(mutex);
      if (first > 6) disk.reset();
      return plan_of("1f1b", first, steps);
    });
    settings.observers = observers_of({.saved = [&, saves = 0]() mutable {
      std::lock_guard lock(mutex);
      if (++saves == 1) change(disk);
    }});
  });
}

json lines_without_times(const RunFolder& folder) {
  json lines = json::array();
  for (const json& line : metrics_of(folder / "metrics.jsonl"))
    if (line.contains("loss")) lines.push_back({line["step"], line["loss"]});
  return lines;
}

}  // namespace

TEST_CASE("a run goes on while its disk is full, and saves when there is room", "[session]") {
  RunFolder whole, full;
  train(whole);
  train(full, [](auto& disk) { disk.emplace(500); });
  CHECK(Checkpoint(full / "checkpoint").step() == 12);
  CHECK(tensors_in(full.path) == tensors_in(whole.path));
  CHECK(lines_without_times(full) == lines_without_times(whole));
  const json summary = json::parse(read_file(full / "summary.json"));
  std::vector<int> lost;
  for (const json& event : summary.at("events"))
    if (event["text"] == "checkpoint not saved") lost.push_back(event["step"]);
  CHECK(lost == std::vector{6});
  for (const auto& file : std::filesystem::directory_iterator(full / "checkpoint"))
    CHECK_THAT(file.path().filename().string(), !Contains("-6"));
}

TEST_CASE("a run writes metrics anew that others move or change while it trains", "[session]") {
  namespace fs = std::filesystem;
  const RunFolder whole;
  train(whole);
  for (const std::string what : {"move", "replace", "add", "empty"}) {
    CAPTURE(what);
    const RunFolder folder;
    const fs::path lines = folder / "metrics.jsonl";
    train(folder, [&](auto&) {
      if (what == "move") fs::rename(lines, folder / "mine");
      if (what == "replace") write_file(lines, "mine\n");
      if (what == "add") std::ofstream(lines, std::ios::app) << "mine\n";
      if (what == "empty") fs::resize_file(lines, 0);
    });
    CHECK(fs::exists(folder / "metrics.jsonl.before-1") == (what != "move"));
    if (what == "empty")
      CHECK_THAT(read_file(folder / "metrics.csv.before-1"), Contains("\n1,"));
    else
      CHECK(lines_without_times(folder) == lines_without_times(whole));
    CHECK_THAT(read_file(folder / "summary.json"), !Contains("checkpoint not saved"));
    const Checkpoint saved(folder / "checkpoint");
    CHECK(saved.step() == 12);
    CHECK(begins_as(lines, saved.run().at("metrics")));
    CHECK(std::ranges::count_if(fs::directory_iterator(folder.path), [](const auto& file) {
            return is_event_file(file.path().filename().string());
          }) == 1);
  }
}
