// train_gpt: trains a GPT on text, on one or many ranks. See --help; sample_gpt writes text with
// the result. Not here: flags and data (examples/common/gpt_run.h), ranks and signals
// (examples/common/run_session.h), and a run's work from its first update to its last
// (parallel/session/session.h). Chapters 02 and 05.
#include "examples/common/gpt_run.h"
#include "examples/common/program.h"
#include "examples/common/run_session.h"

namespace {

using namespace paragrad::parallel;
using namespace paragrad::examples;

/// Returns the vocabulary for sample_gpt's decoding; null for token ids without a vocabulary.
nlohmann::json vocabulary_of(const TextData& data) {
  return data.vocabulary ? data.vocabulary->to_json() : nlohmann::json();
}

TextData load(const GptRun& run) {
  TextData data = run.load_data();
  data.training.evaluation_windows(run.model.context);  // throws now if a text is too short
  data.validation.evaluation_windows(run.model.context);
  return data;
}

void check_resume(const GptRun& run, const TextData& data) {
  if (!run.resume.empty())
    PG_CHECK(Checkpoint(run.resume / "checkpoint").run().value("vocabulary", nlohmann::json()) ==
                 vocabulary_of(data),
             "--resume: the data's vocabulary is not the run's; give the same --data and --vocab ",
             "as before");
  check_resume(run, nlohmann::json(data.training.checksum()));
}

SessionSettings settings_of(const GptRun& run, const GptConfig& model, const TextData& data,
                            const RunLayout& layout, const Training& training) {
  const std::string sizes = text("a vocabulary of ", model.vocabulary, ", ", data.training.size(),
                                 " tokens to train on, ", data.validation.size(), " to validate");
  SessionSettings settings = session_settings(run, layout, training, {{"model", to_json(model)}},
                                              data.training.checksum(), sizes);
  settings.units_per_step = layout.rows_per_step() * model.context;
  settings.flops_per_unit = gpt_flops_per_token(model, model.context);
  if (data.vocabulary) settings.run["vocabulary"] = vocabulary_of(data);
  return settings;
}

ReadyRun prepare(const GptRun& run, int started) {
  const RunLayout layout(run, started, run.model.tied);
  const auto data = std::make_shared<const TextData>(load(run));
  GptConfig model = run.model;
  model.vocabulary = data->training.vocabulary_size();
  check_resume(run, *data);
  Training training = layout.training(gpt(model));
  training.optimizer = run.optimizer();
  const SessionSettings settings = settings_of(run, model, *data, layout, training);
  const auto examples = std::make_shared<TextExamples>(data, training.seed, model.context);
  return {training, settings, layout, examples};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a GPT on text, on one or many ranks. Writes metrics.jsonl, summary.json, trace.json, "
      "report.html and checkpoint/ to --out.",
      "train_gpt");
  GptRun run;
  run.add_flags(app);
  return run_program(app, [&] {
    run.parse(app, argc, argv);
    return train_run(run, [&](int started) { return prepare(run, started); });
  });
}
