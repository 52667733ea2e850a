// Bytes of memory by the meter against the papers' formulas: versions of weights, activations.
// Not here: how many microbatches a plan stashes, which closed_forms_test.cpp asserts.

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// What one microbatch takes on a stage, in bytes.
struct Sizes {
  std::int64_t input = 0, output = 0;
  std::int64_t kept = 0;     ///< between forward and backward, input and output among it
  std::int64_t forward = 0;  ///< while the forward runs, which makes tensors that it does not keep
  std::int64_t input_part = 0;  ///< while the first part of a split backward runs
  std::int64_t waiting = 0;     ///< between the two parts
};

/// Measures a stage alone.
Sizes sizes_of(const Training& training, int stage) {
  set_compute_threads(1);
  SmallBatches batches(small_gpt());
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  StageRunner runner(training, stage, device);
  StageRunner::Inputs inputs;
  inputs.sink = [](const Parameter&, const Tensor&) {};
  {
    CategoryScope category(*device, Category::weights);
    inputs.weights = zeros({runner.parameters().numel()}, training.dtype, device);
  }
  Sizes sizes;
  Shape shape = output_shape(training.model, 0, training.cuts[stage], batches.shape(0));
  inputs.x = stage == 0 ? batches.inputs(0, device) : zeros(shape, training.dtype, device);
  sizes.input = meter.live(Category::activations);
  if (stage == training.stages() - 1) inputs.targets = batches.targets(0, device);
  Shape output = runner.forward(0, inputs).shape();
  sizes.output = output.numel() * size_of(training.dtype);
  inputs.x = inputs.targets = {};
  sizes.kept = meter.live(Category::activations);
  sizes.forward = meter.peak(Category::activations);
  device->meter().reset_peaks();
  const bool last = stage == training.stages() - 1;
  runner.backward(0, last ? Tensor() : zeros(output, training.dtype, device), Value::input_part,
                  inputs.weights, inputs.shared);
  sizes.input_part = meter.peak(Category::activations);
  sizes.waiting = meter.live(Category::activations);
  return sizes;
}

/// The most that a rank of one stage holds: a row's stashes, what it receives early, and the
/// forward that is running. Where activations are dropped, their output has a life of its own until
/// the next stage takes it, which is a matter of time: `unsent` bytes at the worst.
std::int64_t predicted_peak(const Row& row, const Sizes& sizes, std::int64_t unsent = 0) {
  std::map<int, std::int64_t> stashed, sending;  // by microbatch
  std::map<std::pair<Value, int>, std::int64_t> received;
  std::int64_t peak = 0;
  auto note = [&](std::int64_t running) {
    for (const auto& [micro, bytes] : stashed) running += bytes;
    for (const auto& [micro, bytes] : sending) running += bytes;
    for (const auto& [value, bytes] : received) running += bytes;
    peak = std::max(peak, running);
  };
  for (const Instruction& x : row) {
    if (x.op == Op::recv)
      received[{x.what, x.micro}] = x.what == Value::activation ? sizes.input : sizes.output;
    if (x.op == Op::forward) {
      stashed.erase(x.micro);
      received.erase({Value::activation, x.micro});
      note(sizes.forward);
      stashed[x.micro] = sizes.kept;
    }
    if (x.op == Op::drop) {
      stashed[x.micro] = sizes.input;
      sending[x.micro] = unsent;
    }
    note(0);
    if (x.op == Op::backward) {
      stashed.erase(x.micro);
      sending.erase(x.micro);
      received.erase({Value::activation_gradient, x.micro});
    }
    if (x.what == Value::input_part) {
      note(sizes.input_part);
      stashed[x.micro] = sizes.waiting;
    }
  }
  return peak;
}

Outcome run(const std::string& schedule, const Training& training, const Layout& layout) {
  SmallBatches batches(small_gpt());
  return run_by_engine(training, plans_of(schedule, layout), batches);
}

/// |W| of a stage.
std::int64_t weight_bytes(const Training& training, int stage) {
  Stage part(training.model, training.cuts[stage], training.cuts[stage + 1],
             training.shared.parameters);
  return 4 * part.parameters().numel();
}

}  // namespace

TEST_CASE("versions of weights in memory: one, with drift, too, 2BW two, PipeDream D - stage",
          "[memory]") {
  for (int stages : {1, 2, 4})
    for (int width : {1, 2})
      for (int microbatches : {2, 4})
        for (const char* schedule : {"gpipe", "1f1b", "2bw", "paci", "pipedream"}) {
          INFO(schedule << " D" << stages << " W" << width << " M" << microbatches);
          Training training = small_training(stages);
          Outcome outcome = run(schedule, training, {stages, width, microbatches, 4});
          for (int rank = 0; rank < width * stages; ++rank) {
            int stage = rank % stages, versions = 1;
            if (schedule == std::string("2bw")) versions = 2;
            if (schedule == std::string("pipedream")) versions = stages - stage;
            CHECK(outcome.peak_weights[rank] == versions * weight_bytes(training, stage));
          }
        }
}

TEST_CASE("weights: 2BW has two versions of a tied table, too", "[memory]") {
  for (int stages : {2, 3}) {
    Training training = small_training(stages, true);
    Layout layout{.stages = stages, .microbatches = 3, .steps = 4, .tied = true};
    Outcome outcome = run("2bw", training, layout);
    for (int stage = 0; stage < stages; ++stage) {
      bool user = stage == 0 || stage == stages - 1;
      std::int64_t table = user ? 4 * training.shared.parameters.numel() : 0;
      CHECK(outcome.peak_weights[stage] == 2 * (weight_bytes(training, stage) + table));
    }
  }
}

TEST_CASE("activations: what a row stashes, and what it receives early", "[memory]") {
  for (int stages : {1, 2, 3})
    for (int microbatches : {1, 2, 3, 5})
      for (const char* schedule : {"gpipe", "1f1b", "2bw", "pipedream"}) {
        Training training = small_training(stages);
        Layout layout{.stages = stages, .microbatches = microbatches, .steps = 2};
        Plan plan = make_plan(schedule, layout);
        Outcome outcome = run(schedule, training, layout);
        for (int rank = 0; rank < stages; ++rank) {
          INFO(schedule << " D" << stages << " M" << microbatches << " stage " << rank);
          CHECK(outcome.peak_activations[rank] ==
                predicted_peak(plan.rows[rank], sizes_of(training, rank)));
        }
      }
}

TEST_CASE("activations: what waits for the second part of a split backward", "[memory]") {
  const Plan plan = parse(plan_text("zero_bubble"));
  const Training training = small_training(plan.stages);
  SmallBatches batches(small_gpt());
  const Outcome outcome = run_by_engine(training, {verify(plan)}, batches);
  for (int rank : {0, 1}) {
    INFO("stage " << rank);
    const Sizes sizes = sizes_of(training, rank);
    CHECK(outcome.peak_activations[rank] == predicted_peak(plan.rows[rank], sizes));
    // About as much as a whole backward needs; a little more while the first part runs.
    CHECK(sizes.waiting == Approx(sizes.kept).epsilon(0.2));
    CHECK(sizes.input_part < 1.1 * sizes.kept);
  }
}

TEST_CASE("activations: zb-h1 keeps what its rows say, little more than 1F1B's fullest stage",
          "[memory]") {
  for (int stages : {2, 3})
    for (int microbatches : {stages, 4 * stages}) {
      const Training training = small_training(stages);
      const Layout layout{.stages = stages, .microbatches = microbatches, .steps = 2};
      const Plan plan = make_plan("zb-h1", layout);
      const Outcome split = run("zb-h1", training, layout), whole = run("1f1b", training, layout);
      std::int64_t waiting = 0, running = 0;  // more than a whole backward keeps
      for (int rank = 0; rank < stages; ++rank) {
        INFO("D" << stages << " M" << microbatches << " stage " << rank);
        const Sizes sizes = sizes_of(training, rank);
        CHECK(split.peak_activations[rank] == predicted_peak(plan.rows[rank], sizes));
        waiting = std::max(waiting, sizes.waiting - sizes.kept);
        running = std::max(running, sizes.input_part);
      }
      CHECK(std::ranges::max(split.peak_activations) <=
            std::ranges::max(whole.peak_activations) + stages * waiting + running);
    }
}

TEST_CASE("activations: M microbatches by GPipe, min(D - stage, M) by 1F1B and 2BW", "[memory]") {
  // Beside them at most what the running forward does not keep, one message on its way in,
  // and two out.
  for (int stages : {2, 3})
    for (int microbatches : {3, 6})
      for (const char* schedule : {"gpipe", "1f1b", "2bw"}) {
        Training training = small_training(stages);
        Outcome outcome = run(schedule, training, {stages, 1, microbatches, 3});
        for (int stage = 0; stage < stages; ++stage) {
          INFO(schedule << " D" << stages << " M" << microbatches << " stage " << stage);
          Sizes sizes = sizes_of(training, stage);
          std::int64_t stashes = schedule == std::string("gpipe")
                                     ? microbatches
                                     : std::min(stages - stage, microbatches);
          std::int64_t beside = outcome.peak_activations[stage] - stashes * sizes.kept;
          CHECK(beside >= sizes.forward - sizes.kept);
          CHECK(beside <= sizes.forward - sizes.kept + sizes.input + 2 * sizes.output);
          CHECK(sizes.kept > 4 * (sizes.forward - sizes.kept + sizes.input + sizes.output));
        }
      }
}

TEST_CASE("activations: with recomputation one microbatch, and the others' inputs", "[memory]") {
  for (int stages : {1, 3})
    for (int microbatches : {2, 5})
      for (const char* schedule : {"gpipe", "1f1b", "2bw"}) {
        Training training = small_training(stages);
        Layout layout{stages, 1, microbatches, 2, 0, /*recompute*/ true};
        Plan plan = make_plan(schedule, layout);
        Outcome outcome = run(schedule, training, layout);
        for (int stage = 0; stage < stages; ++stage) {
          INFO(schedule << " D" << stages << " M" << microbatches << " stage " << stage);
          Sizes sizes = sizes_of(training, stage);
          std::int64_t peak = outcome.peak_activations[stage];
          std::int64_t unsent = stage < stages - 1 ? sizes.output : 0;
          CHECK(peak >= predicted_peak(plan.rows[stage], sizes));
          CHECK(peak <= predicted_peak(plan.rows[stage], sizes, unsent));
          CHECK(peak < 2 * sizes.kept);
        }
      }
}
