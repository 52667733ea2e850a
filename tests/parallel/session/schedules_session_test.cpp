// Sessions of interleaved, breadth-first, zero-bubble, two-way and drifting schedules: stopped or
// interrupted they go on, as they were and in other layouts, to the bits of a run that was not.
// Not here: a signal that interrupts a program (tests/examples/ranks_test).

#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/checkpoint_tensors.h"
#include "tests/parallel/support/small_session.h"
#include "tests/parallel/support/todays_schedules.h"
#include "tests/sanitized.h"
#include "tests/temporary_folder.h"

using namespace plangrad::tests;

namespace {

namespace fs = std::filesystem;

constexpr int last_step = 7;

struct Session {
  Today today;
  int stop_after = 0, asked_until = 1000;  ///< it is interrupted once that was asked so often

  /// Runs from a checkpoint, if `from` names a run, and saves one. Returns the updates made by
  /// then.
  int run(const fs::path& out, const fs::path& from = {}) const {
    Training training = small_training(today.layout.stages);
    SessionSettings settings;
    settings.out = out;
    settings.resume_from(from);
    settings.steps = last_step;
    settings.stop_after = stop_after;
    settings.observers = observers_of({.evaluate_every = 0});
    settings.engine.timeout = 20;
    settings.run = nlohmann::json::object();
    settings.plans = std::make_shared<Plans>(today.schedule, today.layout);
    settings.interrupted = [until = asked_until, asked = 0]() mutable { return ++asked > until; };
    run_ranks(make_plan(today.schedule, today.layout).ranks(), [&](Transport& transport) {
      set_compute_threads(1);
      SmallData data;
      const SessionSettings own = settings;
      run_session(training, transport, cpu_device(), data, own);
    });
    return static_cast<int>(Checkpoint(out / "checkpoint").step());
  }
};

/// The weights in a run's checkpoint.
std::vector<double> weights_in(const fs::path& out) {
  const Training training(gpt(small_gpt(false)), 1);
  const Tensor weights = zeros({training.whole.numel()}, DType::f32, cpu_device());
  Checkpoint(out / "checkpoint").load_weights(training.whole, weights);
  return to_host(weights);
}
/// Another schedule that continues the same training: its sums are added in the same order.
Today another(const Today& today) {
  Layout layout{.stages = today.layout.stages, .microbatches = today.layout.microbatches};
  if (today.schedule == "dualpipe") {
    layout.width = 2;
    layout.microbatches /= 2;
  }
  return {"1f1b", layout};
}

}  // namespace

TEST_CASE("sessions of today's schedules are stopped and go on, also in another layout",
          "[session][chunked]") {
  for (const Today& today : fewer(todays_schedules())) {
    INFO(today.schedule);
    TemporaryFolder folder;
    CHECK(Session{today, 3}.run(folder.path / "begun") == 3);
    CHECK(Session{today}.run(folder.path / "resumed", folder.path / "begun") == last_step);
    Session{another(today)}.run(folder.path / "moved", folder.path / "begun");
    Session{{"data", another(today).layout}}.run(folder.path / "data", folder.path / "begun");
    CHECK(weights_in(folder.path / "moved") == weights_in(folder.path / "data"));
    if (today.schedule == "paci") {  // where it drains, its numbers change
      CHECK(weights_in(folder.path / "resumed") != weights_in(folder.path / "moved"));
      continue;
    }
    CHECK(Session{today}.run(folder.path / "whole") == last_step);
    CHECK(tensors_in(folder.path / "resumed").size() > 2);
    CHECK(tensors_in(folder.path / "resumed") == tensors_in(folder.path / "whole"));
    CHECK(weights_in(folder.path / "resumed") == weights_in(folder.path / "moved"));
  }
}

TEST_CASE("sessions of today's schedules go on with shards, and with what their codecs left out",
          "[session][chunked][codec]") {
  int number = 0;
  for (Today today : fewer(todays_schedules())) {
    if (today.schedule == "paci" || ++number % 2 == 0) continue;
    INFO(today.schedule);
    if (today.schedule != "dualpipe") today.layout.width = 2;
    today.layout.zero = 1;
    today.layout.recompute = true;
    today.layout.codec = parse_codec("topk:0.05");
    TemporaryFolder folder;
    Session{today, 3}.run(folder.path / "begun");
    Session{today}.run(folder.path / "resumed", folder.path / "begun");
    Session{today}.run(folder.path / "whole");
    CHECK(tensors_in(folder.path / "resumed") == tensors_in(folder.path / "whole"));
    if (number > 1) continue;
    // Without what was left out before, it would go on to others.
    today.layout.codec = {};
    Session{today, 3}.run(folder.path / "plain");
    today.layout.codec = parse_codec("topk:0.05");
    Session{today}.run(folder.path / "other", folder.path / "plain");
    CHECK(weights_in(folder.path / "other") != weights_in(folder.path / "whole"));
  }
}

TEST_CASE("sessions of today's schedules are interrupted and go on", "[session][chunked]") {
  for (const Today& today : fewer(todays_schedules())) {
    INFO(today.schedule);
    TemporaryFolder folder;
    // Asked before the first plan, when it ends, and before the one that is recorded.
    const int steps = Session{today, 0, 3}.run(folder.path / "out");
    CHECK(steps > 0);
    CHECK(steps < last_step);
    CHECK(Session{today}.run(folder.path / "out", folder.path / "out") == last_step);
    Session{today, steps}.run(folder.path / "same");
    CHECK(Session{today}.run(folder.path / "same", folder.path / "same") == last_step);
    CHECK(tensors_in(folder.path / "out") == tensors_in(folder.path / "same"));
  }
}
