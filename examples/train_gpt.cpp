// train_gpt: trains a GPT on text, on one or many ranks. See --help; sample_gpt writes text with
// the result. Not here: flags and data (examples/programs/gpt_run.h), ranks and signals
// (examples/programs/run_session.h), and a run's work from its first update to its last
// (parallel/session/session.h). Chapters 02 and 05.
#include "examples/programs/exports.h"
#include "examples/programs/gpt_run.h"
#include "examples/programs/program.h"
#include "examples/programs/train_program.h"
#include "nn/checkpoint/gpt_files.h"

namespace {

using namespace plangrad::parallel;
using namespace plangrad::examples;

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

DataChecksums checksums_of(const TextData& data) {
  return {data.training.checksum(), data.validation.checksum()};
}

/// Checks that what only the checkpoint names is what the run began with: a stranger who made it
/// can name any file, but does not know its checksum, unless the text is so short that it can be
/// guessed.
void check_resume(const GptRun& run, const TextData& data) {
  if (!run.resumed) return;
  const nlohmann::json& before = run.resumed_run();
  const bool same_words = before.value("vocabulary", nlohmann::json()) == vocabulary_of(data);
  const bool same_text = before.value("data", nlohmann::json()) == data.training.checksum();
  const bool began_split = !before.at("flags").contains("--validation");
  PG_CHECK(
      (same_words && same_text) || run.validation.empty() || !began_split,
      "--resume: the run began without --validation, so it trains on the first nine tenths of ",
      "its --data; with --validation, it would train on all of ", run.data.string(),
      ", which is another text: leave out --validation");
  PG_CHECK(same_words,
           "--resume: the data's vocabulary is not the run's; give the same --data and --vocab as ",
           "before");
  if (run.saved_files.contains("--validation")) {
    const nlohmann::json known = before.value("validation", nlohmann::json());
    const std::string file = run.validation.string();
    PG_CHECK(known == data.validation.checksum(), "--resume: ",
             known.is_null() ? "the checkpoint does not say on which text the run was validated"
                             : file + " is not the text that the run was validated on",
             "; give --validation ", file, " to use this one from now on");
  }
  check_resume(run, checksums_of(data), /*other_validation*/ !run.validation.empty());
}

RunSettings settings_of(const GptRun& run, const GptConfig& model, const TextData& data,
                        const RunLayout& layout, const Training& training) {
  const int largest = std::max(data.training.largest(), data.validation.largest());
  const bool is_plain = data.vocabulary && data.vocabulary->size() == model.vocabulary;
  const std::string ids = is_plain ? "" : text(" (the data's largest id is ", largest, ")");
  const std::string sizes =
      text("a vocabulary of ", model.vocabulary, ids, ", ", data.training.size(),
           " tokens to train on, ", data.validation.size(), " to validate");
  RunSettings settings = session_settings(run, layout, training, {{"model", to_json(model)}},
                                          checksums_of(data), sizes);
  settings.observed.units_per_step = layout.rows_per_step() * model.context;
  settings.observed.flops_per_unit = gpt_flops_per_token(model, model.context);
  if (data.vocabulary) settings.run["vocabulary"] = vocabulary_of(data);
  // The export of an earlier run in this folder belongs to its weights, which are gone now.
  settings.observed.saved.push_back(remove_export);
  return settings;
}

/// The rows of the model's table: a run that began with another's model may have some to pad it.
int rows_of(const GptRun& run, const TextData& data) {
  const nlohmann::json before = run.resumed ? run.resumed_run() : nlohmann::json();
  return before.contains("model") ? gpt_config(before.at("model")).vocabulary
                                  : data.training.vocabulary_size();
}

/// Warns if the search that found the plan knew another vocabulary.
void check_planned(const GptRun& run, int vocabulary) {
  const std::int64_t planned = run.planned_vocabulary;
  if (planned > 0 && planned != vocabulary && rank_here() == 0)
    tell(text("warning: the model of --plan-from ", run.plan_from.string(), " has a vocabulary of ",
              counted(planned, "token"), ", and this run one of ", vocabulary,
              ": the plan's seconds and memory are those of another model"));
}

void check_stages(const GptRun& run, int stages) {
  const int parts = run.model.layers + 2;
  if (!run.parts.layout.cuts.empty()) return;  // which may cut blocks, too
  PG_CHECK(stages <= parts, counted(stages, "stage"), ": a GPT of --layers ", run.model.layers,
           " has ", parts, " parts to cut between: the embedding, ",
           counted(run.model.layers, "block"), " and the head; use at most ", parts,
           " stages (fewer --stages, --chunks or --ranks), or at least --layers ", stages - 2);
}

ReadyRun prepare(const GptRun& run, int started) {
  check_stages(run, run.parts.layout.stages);  // a plan of very many would take long to make
  const RunLayout layout(run, started, run.model.tied, run.model.layers + 2);
  const auto data = std::make_shared<const TextData>(load(run));
  GptConfig model = run.model;
  if (run.from.empty()) model.vocabulary = rows_of(run, *data);
  run.check_model(model.vocabulary);
  check_planned(run, model.vocabulary);
  check_resume(run, *data);
  check_stages(run, layout.first_plan()->plan().stages);
  Training training = layout.training(gpt(model));
  training.first_weights = run.first_weights();
  training.optimizer = run.optimizer();
  RunSettings settings = settings_of(run, model, *data, layout, training);
  if (started > 1 && !run.from.empty())  // hosts may have other files under the same path
    for (const std::filesystem::path& file : weight_files(run.from))
      settings.run["from"][file.filename().string()] = file_checksum(file);
  const auto examples = std::make_shared<TextExamples>(data, training.seed, model.context);
  return {training, settings, layout, examples};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags(
      "Trains a GPT on text, on one or many ranks. Writes to a folder: metrics (metrics.jsonl, "
      "metrics.csv, and events for TensorBoard), summary.json, trace.json, report.html, "
      "checkpoint/ and, at the end, the model for Hugging Face in huggingface/.",
      "train_gpt");
  GptRun run;
  run.add_flags(flags);
  add_examples(
      flags,
      {{"Train on one rank", "train_gpt --data my.txt --steps 500"},
       {"Cut the model into four stages, one for each of four ranks",
        "train_gpt --data my.txt --schedule 1f1b --stages 4 --microbatches 8 --batch 16"},
       {"Begin the second of three stages at block 2, and the third within block 4",
        "train_gpt --data my.txt --schedule 1f1b --stages 3 --cuts 2,4.5 --microbatches 6"},
       {"Continue the newest run in another layout",
        "train_gpt --resume runs/latest --ranks 2 --data-parallel 2 --steps 1000"},
       {"Fine-tune GPT-2 on two ranks, and prune it to a tenth of its weights",
        "train_gpt --from gpt2 --data my.txt --stages 2 --prune 0.9 --samo --learning-rate 1e-4"}});
  return train_program(flags, run, argc, argv, prepare, export_run);
}
