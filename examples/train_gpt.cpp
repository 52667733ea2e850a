// train_gpt: trains a GPT on text, on one rank. See --help; sample_gpt writes text with the result.
// Not here: flags (examples/gpt_run.h), the step (nn/trainer.h), data (nn/text_data.h) and files
// (nn/run_log.h, nn/checkpoint.h). Chapter 02.
#include <unistd.h>

#include <csignal>
#include <optional>

#include "autograd/cpu/cpu_backend.h"
#include "examples/gpt_run.h"
#include "nn/matmul_rate.h"
#include "nn/run_log.h"

namespace {

using namespace paragrad::nn;
using paragrad::examples::GptRun;

volatile std::sig_atomic_t interrupted = 0;  // the signal's number

/// Ends training after the present step; a second signal ends the program.
void interrupt(int signal) {
  interrupted = signal;
  std::signal(signal, SIG_DFL);
}

/// One session of a run: from its start, or from a checkpoint, to its end or a stop.
class Session {
 public:
  /// Reads, checks and builds everything.
  /// throws: Error if the run is impossible; nothing has been written then
  explicit Session(const GptRun& run);

  /// Returns whether the run has come to its end.
  bool train();

 private:
  void resume();
  void step();
  void save();
  double validation_loss(std::int64_t limit);
  nlohmann::json summary(double validation);

  TextData data_;
  GptRun run_;  // with the data's vocabulary
  DevicePtr device_ = cpu_device();
  Trainer trainer_;
  std::optional<RunLog> log_;
};

GptRun with_vocabulary(GptRun run, const TextData& data) {
  data.training.evaluation_windows(run.model.context);  // says now if a text is too short
  data.validation.evaluation_windows(run.model.context);
  run.model.vocabulary = data.training.vocabulary_size();
  run.model.tied = !run.untied;
  return run;
}

/// What sample_gpt decodes with; null for token ids without a vocabulary.
nlohmann::json vocabulary_of(const TextData& data) {
  return data.vocabulary ? data.vocabulary->to_json() : nlohmann::json();
}

void make_writable(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  PG_CHECK(!problem && ::access(folder.c_str(), W_OK) == 0, "can't write to the folder ",
           folder.string(), "; choose another with --out");
}

Session::Session(const GptRun& run)
    : data_(run.load_data()),
      run_(with_vocabulary(run, data_)),
      trainer_(gpt(run_.model), run_.trainer(), device_) {
  if (!run_.resume.empty()) resume();
}

void Session::resume() {
  Checkpoint checkpoint(run_.resume / "checkpoint");
  PG_CHECK(checkpoint.run().value("vocabulary", nlohmann::json()) == vocabulary_of(data_),
           "--resume: the data has another vocabulary than the run's; give it the same --data and ",
           "--vocab");
  PG_CHECK(checkpoint.run().value("data", nlohmann::json()) == data_.training.checksum(),
           "--resume: ", run_.data.string(), " is not the text that the run began with");
  PG_CHECK(checkpoint.step() < run_.steps, "--resume: the run has done ", checkpoint.step(),
           " of its ", run_.steps, " steps; give it more with --steps");
  checkpoint.load_weights(trainer_.parameters(), trainer_.weights());
  for (const auto& [name, buffer] : trainer_.optimizer().state())
    checkpoint.load_state(name, trainer_.parameters(), buffer);
  trainer_.resume_at(checkpoint.step());
}

bool Session::train() {
  make_writable(run_.out);
  make_writable(run_.out / "checkpoint");
  const std::int64_t first = trainer_.steps();
  log_.emplace(run_.out, RunSpan{first, run_.steps, run_.resume}, run_.quiet);
  log_->say(text(trainer_.parameters().numel(), " parameters, a vocabulary of ",
                 run_.model.vocabulary, ", ", data_.training.size(), " tokens to train on, ",
                 data_.validation.size(), " to validate"));

  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  std::int64_t last = run_.steps;
  if (run_.stop_after > 0) last = std::min(last, first + run_.stop_after);
  while (trainer_.steps() < last && !interrupted) {
    step();
    auto due = [&](std::int64_t every) { return every > 0 && trainer_.steps() % every == 0; };
    if (due(run_.evaluate_every) && trainer_.steps() < run_.steps)
      log_->validation(trainer_.steps(), validation_loss(20));
    if (due(run_.save_every) && trainer_.steps() < last) save();
  }
  if (trainer_.steps() > first) save();

  if (trainer_.steps() < run_.steps) {
    log_->say(text(interrupted ? "interrupted" : "stopped", " after ", trainer_.steps(), " of ",
                   run_.steps, " steps; go on with --resume ", run_.out.string()));
    return false;
  }
  double validation = validation_loss(0);
  log_->validation(trainer_.steps(), validation);
  log_->say(text("validation loss ", validation));
  log_->summary(summary(validation));
  return true;
}

void Session::step() {
  auto start = std::chrono::steady_clock::now();
  Shape shape{run_.batch, run_.model.context};
  std::uint64_t seed = static_cast<std::uint64_t>(run_.seed);
  Batch batch = data_.training.batch(seed, trainer_.steps(), run_.batch, run_.model.context);
  StepResult result = trainer_.step(from_host(batch.inputs, shape, device_),
                                    from_host(batch.targets, shape, device_));
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  log_->step(trainer_.steps(), result, seconds.count(), shape.numel());
}

void Session::save() {
  nlohmann::json saved = run_.to_json();
  saved["data"] = data_.training.checksum();
  if (data_.vocabulary) saved["vocabulary"] = vocabulary_of(data_);
  save_checkpoint(run_.out / "checkpoint", trainer_.steps(), saved, trainer_.parameters(),
                  trainer_.weights(), trainer_.optimizer().state());
  log_->replace_earlier();
}

/// The mean over at most `limit` batches, spread over the validation data; 0: over all of it.
double Session::validation_loss(std::int64_t limit) {
  std::int64_t context = run_.model.context, size = run_.batch;
  std::int64_t windows = data_.validation.evaluation_windows(context);
  std::int64_t batches = (windows + size - 1) / size;
  std::int64_t stride = limit > 0 ? (batches + limit - 1) / limit : 1;
  double sum = 0, count = 0;
  for (std::int64_t b = 0; b < batches; b += stride) {
    Batch batch =
        data_.validation.evaluation_batch(b * size, std::min((b + 1) * size, windows), context);
    Shape shape{batch.sequences, context};
    double n = static_cast<double>(batch.sequences);
    sum += n * trainer_.evaluate(from_host(batch.inputs, shape, device_),
                                 from_host(batch.targets, shape, device_));
    count += n;
  }
  return sum / count;
}

/// Losses are the run's; time, rate and memory are this session's. The device's matrix-product rate
/// is measured now.
nlohmann::json Session::summary(double validation) {
  nlohmann::json memory = memory_summary(device_->meter());
  double rate = static_cast<double>(log_->tokens()) / std::max(log_->seconds(), 1e-9);
  double flops = rate * gpt_flops_per_token(run_.model, run_.model.context);
  return {{"config", run_.to_json()},
          {"loss", log_->last_loss()},
          {"validation_loss", validation},
          {"seconds", log_->seconds()},
          {"tokens_per_second", rate},
          {"model_flops_utilization", flops / matmul_rate(device_)},
          {"peak_bytes", nlohmann::json::array({memory})},
          {"bytes_sent", nlohmann::json::object()}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a GPT on text. Writes metrics.jsonl, summary.json and checkpoint/ under --out.",
      "train_gpt");
  GptRun run;
  run.add_flags(app);
  return paragrad::examples::run_program(app, [&] {
    run.parse(app, argc, argv);
    return Session(run).train() || !interrupted ? 0 : 128 + interrupted;
  });
}
