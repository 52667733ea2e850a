// What an earlier run left, damaged: lines of metrics, and the numbers of its codec.
// Not here: a checkpoint's own files (tests/nn/checkpoint_test.cpp).
#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "parallel/schedules/schedule.h"
#include "parallel/session/run_log.h"
#include "parallel/session/state_files.h"
#include "tests/catch.h"
#include "tests/temporary_folder.h"

using namespace plangrad;
using namespace plangrad::parallel;
using nlohmann::json;
using tests::TemporaryFolder;

TEST_CASE("a run goes on from metrics whose values are of other kinds", "[session]") {
  const TemporaryFolder folder;
  nn::write_file(folder.path / "metrics.jsonl", R"({"step": 1, "loss": null, "seconds": "long"})"
                                                "\n"
                                                R"({"step": 2, "loss": 3, "seconds": null})"
                                                "\n"
                                                R"({"step": 2, "drained": 5})"
                                                "\n"
                                                R"({"step": 1.5})"
                                                "\n" +
                                                    std::string(300'000, '['));
  nn::make_folder(folder.path / "checkpoint");
  commit_checkpoint(folder.path / "checkpoint", {2}, json::object(), {});
  SessionSettings settings;
  settings.resume = folder.path;
  settings.out = folder.path / "out";
  settings.quiet = true;
  const RunLog log(settings, 2);
  CHECK(log.metrics().updates() == 2);
  const json columns = log.metrics().columns(10);
  CHECK(columns["loss"].size() == 2);
  CHECK(columns["events"].empty());
}

TEST_CASE("a codec's numbers that no run wrote are refused", "[session]") {
  const nn::GptConfig config{1, 1, 4, 4, 5, 0, true};
  const Training training(nn::gpt(config), 1);
  const Plan plan = make_plan("data", {.width = 2, .codec = parse_codec("topk:0.5")});
  const json rank{{"thresholds", json::object()}, {"uses", 0}};
  const json layout{{"codec", "topk:0.5"}, {"ranks", 2}, {"per_step", 2}};
  auto refusal = [&](const json& codec) -> std::string {
    const TemporaryFolder folder;
    commit_checkpoint(folder.path, 1, {{"codec", codec}}, {});
    try {
      lost_residual(nn::Checkpoint(folder.path), plan, training);
    } catch (const autograd::Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal({{"layout", layout}, {"numbers", {rank, rank}}}) == "");
  CHECK_THAT(refusal({{"layout", layout}, {"numbers", {rank}}}),
             Contains("it has a codec's numbers of 1 ranks, and says that there were 2"));
  json many = layout;
  many["ranks"] = 2'000'000'000;
  CHECK_THAT(refusal({{"layout", many}, {"numbers", {rank, rank}}}), Contains("were 2000000000"));
  many["ranks"] = 1e300;
  CHECK_THAT(refusal({{"layout", many}, {"numbers", {rank, rank}}}), Contains("whole number"));
  for (const json& codec :
       {json("topk"), json{{"layout", layout}}, json{{"layout", layout}, {"numbers", {1, 2}}}})
    CHECK_THAT(refusal(codec), Contains("the checkpoint is damaged: its codec's numbers"));
}
