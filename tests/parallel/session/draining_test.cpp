// Runs whose pipeline never drains, or only where they say so: their bits, and their reports.
// Not here: endless plans as such (parallel/engine/), and other plans of a run
// (session_plans_test).
#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/observers/run_record.h"
#include "tests/catch.h"
#include "tests/checkpoint_tensors.h"
#include "tests/metric_lines.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;

namespace {

/// Runs a schedule from a checkpoint, if one is given, to update `last`, or until it is
/// interrupted. Returns the updates that were made.
int run_pipeline(const std::string& schedule, const RunFolder& folder, const std::string& resume,
                 int last, bool interrupted, int evaluate_every = 0) {
  run_sessions(small_training(2), folder, 2, [&](int, SessionSettings& settings) {
    settings.resume_from(resume);
    settings.run = nlohmann::json::object();
    settings.steps = 1000000;
    settings.stop_after = resume.empty() ? last : last - 7;
    settings.observers = observers_of({.evaluate_every = evaluate_every});
    settings.plans = std::make_shared<WatchedPlans>(schedule);
    // Asked before and after the plan that is recorded, then in the endless one.
    settings.interrupted = [interrupted, asked = 0]() mutable {
      return interrupted && ++asked > 5;
    };
  });
  return static_cast<int>(Checkpoint(folder / "checkpoint").step());
}

}  // namespace

TEST_CASE("a run that never drains can be interrupted, and has the bits of one that is resumed",
          "[session]") {
  RunFolder interrupted, whole, begun, resumed;
  const int steps = run_pipeline("2bw", interrupted, "", 0, true);
  REQUIRE(steps > 7);
  CHECK(steps < 1000000);
  CHECK(run_pipeline("2bw", whole, "", steps, false) == steps);
  CHECK(run_pipeline("2bw", begun, "", 7, false) == 7);
  CHECK(run_pipeline("2bw", resumed, begun.path, steps, false) == steps);
  REQUIRE(tensors_in(whole.path).size() > 1);
  CHECK(tensors_in(interrupted.path) == tensors_in(whole.path));
  CHECK(tensors_in(resumed.path) == tensors_in(whole.path));
}

TEST_CASE("a run says how often its pipeline drained, and the bubble of all its steps",
          "[session]") {
  RunFolder folder;
  run_pipeline("2bw", folder, "", 30, false, 12);
  const auto summary = nlohmann::json::parse(read_file(folder / "summary.json"));
  CHECK(summary.at("drained") == nlohmann::json({{"recording", 1}, {"validation", 2}, {"end", 1}}));
  const double bubble = summary.at("bubble").at("all_steps");
  CHECK(bubble > 0);
  CHECK(bubble < 1);
  CHECK(summary.at("bubble").at("steady_state") < summary.at("bubble").at("simulated"));
  CHECK(summary.at("update_seconds").at("steady_state") <
        summary.at("update_seconds").at("simulated"));
}

TEST_CASE("a run with drift says where it drains, and has the bits of plans that end there",
          "[session]") {
  RunFolder begun, resumed;
  CHECK(run_pipeline("paci", begun, "", 7, false) == 7);
  CHECK(run_pipeline("paci", resumed, begun.path, 20, false) == 20);
  std::vector<int> drains;
  for (const nlohmann::json& line : metrics_of(resumed / "metrics.jsonl"))
    if (line.contains("drained")) drains.push_back(line["step"]);
  CHECK(std::ranges::count(drains, 7) == 1);
  REQUIRE(!drains.empty());
  CHECK(drains.back() == 20);

  std::vector<VerifiedPlan> plans;
  int first = 0;
  for (int last : drains) {
    plans.push_back(verify(plan_of("paci", first, last - first)));
    first = last;
  }
  const Training training = small_training(2);
  SmallBatches batches(small_gpt());
  const Outcome drained = run_by_engine(training, plans, batches);
  const Outcome full = run_by_engine(training, {verify(plan_of("paci", 0, 20))}, batches);
  const Checkpoint checkpoint(resumed / "checkpoint");
  for (int stage : {0, 1}) {
    const ParameterList list =
        Stage(training.model, training.cuts[stage], training.cuts[stage + 1]).parameters();
    const Tensor weights = zeros({list.numel()}, DType::f32, cpu_device());
    checkpoint.load_weights(list, weights);
    CHECK(to_host(weights) == drained.weights.at({stage, stage}));
    CHECK(to_host(weights) != full.weights.at({stage, stage}));  // draining changes the numbers
  }
}

TEST_CASE("a run with drift that stops where it drains has the bits of one that goes on",
          "[session]") {
  RunFolder whole, parts;
  auto run = [](const RunFolder& folder, const std::string& resume, int stop_after) {
    run_sessions(small_training(2), folder, 2, [&](int, SessionSettings& settings) {
      settings.resume_from(resume);
      settings.run = nlohmann::json::object();
      settings.steps = 30;
      settings.stop_after = stop_after;
      settings.observers = observers_of({.evaluate_every = 10});
      settings.plans = std::make_shared<WatchedPlans>("paci");
    });
  };
  run(whole, "", 0);
  run(parts, "", 10);
  run(parts, parts.path, 10);
  run(parts, parts.path, 0);
  CHECK(tensors_in(parts.path) == tensors_in(whole.path));
}
