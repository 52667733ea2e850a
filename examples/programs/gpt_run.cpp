// The flags of train_gpt, an estimate of the memory that a run needs, and sequences of text, copied
// to a rank's device. Chapters 02 and 05.
#include "examples/programs/gpt_run.h"

#include "examples/programs/exports.h"
#include "examples/programs/run_folder.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/gpt_files.h"

namespace plangrad::examples {

GptRun::GptRun() {
  program = "train_gpt";
  examples = "sequences";
  kind_of_data = "text";
}

void GptRun::add_flags(Flags& flags) {
  flags.group("Model");
  flags.whole("--layers", model.layers, 1, "transformer blocks");
  flags.whole("--heads", model.heads, 1, "attention heads");
  flags.whole("--width", model.width, 1, "channels, a multiple of --heads");
  flags.whole("--context", model.context, 1, "tokens that a prediction can see");
  flags.number("--dropout", model.dropout, 0, 0.99, "share of activations dropped in training");
  flags.yes("--untied", untied, "give the head weights of its own instead of the embedding's");
  flags.words("--vocab", vocabulary, "NAME",
              "chars, bytes, or a folder with a tokenizer, its tokenizer.json, or its vocab.json "
              "next to merges.txt (default: chars for text, or the tokenizer of --from)");
  flags.words("--from", from, "FOLDER",
              "begin with the weights of a GPT-2 in Hugging Face's layout, whose config.json sets "
              "layers, heads, width, context and ties");

  flags.group("Data");
  flags.words("--data", data, "FILE", "plain text, or token ids as headerless uint16 (.bin)");
  flags.words("--validation", validation, "FILE",
              "validation data, in the same format (default: the last tenth of --data)");

  add_length_flags(flags);
  flags.number("--weight-decay", weight_decay, 0, limits::large, "AdamW's decay of matrices");
  flags.number("--beta2", beta2, 0, 0.999999,
               "AdamW's decay rate of squared gradients; 0.95 suits large batches");
  add_run_flags(flags);
}

void GptRun::parse(Flags& flags, const Words& words) {
  RunFlags::parse(flags, words,
                  {"--layers", "--heads", "--width", "--context", "--dropout", "--untied",
                   "--batch", "--seed", "--dtype"});
  PG_CHECK(!data.empty(), "--data FILE is needed: a text; examples/data/download.sh fetches one, ",
           "and examples/quickstart.sh makes one and trains on it");
  PG_CHECK(from.empty() || resume.empty(), "--from ", from.string(), " and --resume ",
           resume.string(), ": a resumed run has its own weights; leave out one of the two");
  model.tied = !untied;
  if (!from.empty()) take_model();
  check();
  check_model(1);  // the vocabulary is not known before the data
  // Save absolute paths, so that a run can be resumed from another folder.
  saved["--data"] = std::filesystem::absolute(data).string();
  if (!validation.empty()) saved["--validation"] = std::filesystem::absolute(validation).string();
  if (!vocabulary.empty() && vocabulary != "chars" && vocabulary != "bytes")
    saved["--vocab"] = std::filesystem::absolute(vocabulary).string();
}

/// Takes the model of --from, and its tokenizer for text. A resumed run gets both as flags of their
/// own, and does not need the folder's weights.
void GptRun::take_model() {
  const std::filesystem::path exported = from / "huggingface";
  PG_CHECK(std::filesystem::exists(from / "config.json") ||
               !std::filesystem::exists(exported / "config.json"),
           "--from ", from.string(), " is a run's folder; the model that the run exported is in ",
           exported.string());
  const GptConfig found = read_gpt_config(from);
  if (!nn::manifests_of(from / "checkpoint").empty() && rank_here() == 0)
    tell("note: --from " + from.string() + " holds a run and a config.json: its model is taken; " +
         "for the run's weights, name the folder of \"checkpoint export RUN FOLDER\"");
  auto take = [&](const char* flag, auto& value, auto wanted) {
    PG_CHECK(!typed.contains(flag) || value == wanted, flag, ' ', value, ": the model in ",
             from.string(), " has ", wanted, "; leave this flag out, or leave out --from");
    saved[flag] = value = wanted;
  };
  take("--layers", model.layers, found.layers);
  take("--heads", model.heads, found.heads);
  take("--width", model.width, found.width);
  take("--context", model.context, found.context);
  PG_CHECK(!untied || !found.tied, "--untied: the model in ", from.string(),
           " has one table for the embedding and the head; leave this flag out");
  model.tied = found.tied;
  saved["--untied"] = !found.tied;
  model.vocabulary = found.vocabulary;
  if (vocabulary.empty() && data.extension() != ".bin") vocabulary = from.string();
  saved.erase("--from");
}

/// Checks a lower bound of the memory that training needs; chapter 03 explains the terms.
void GptRun::check_model(int tokens) const {
  GptConfig config = model;
  config.vocabulary = tokens;
  config.check();
  double width = model.width, layers = model.layers, context = model.context;
  double parameters = layers * 12 * width * width + tokens * width;
  double rows = parts.smallest_share(batch, ranks) * context;
  double kept = width * layers * (parts.layout.recompute ? 1 : 16) + tokens;  // of a row
  double bytes = 16 * parameters + autograd::size_of(type()) * rows * kept;
  check_memory(bytes,
               "fewer --layers, a smaller --width, --context or --batch, or more --microbatches");
}

TextData GptRun::load_data() const {
  for (const std::filesystem::path& folder : {from, std::filesystem::path(vocabulary)})
    check_export(folder);
  bool cut_into_characters = vocabulary.empty() && data.extension() != ".bin";
  TextData text = load_text_data(data, validation, cut_into_characters ? "chars" : vocabulary);
  if (from.empty()) return text;
  const int largest = std::max(text.training.largest(), text.validation.largest());
  const int size = text.vocabulary ? text.vocabulary->size() : largest + 1;
  // The folder's own vocabulary may have fewer tokens than its model has rows, or more that were
  // added and do not occur. Another vocabulary of another size is not the model's.
  const bool is_own = vocabulary == from.string() || !text.vocabulary;
  const int needed = is_own && text.vocabulary ? text.vocabulary->size_without_added() : size;
  PG_CHECK(size == model.vocabulary || (is_own && needed <= model.vocabulary), "--from ",
           from.string(), ": its model knows ", counted(model.vocabulary, "token"), ", and ",
           text.vocabulary ? "--vocab " + vocabulary : data.string(), " has ", size,
           "; leave out --vocab, or use the data that belongs to the model");
  PG_CHECK(
      largest < model.vocabulary, "--from ", from.string(), ": its model knows ", model.vocabulary,
      " tokens, and ", data.string(), " has token ", largest,
      ", which was added to the vocabulary alone: take it out of the text, or give the model a ",
      "row for it in Python, by resize_token_embeddings()");
  return text;
}

std::function<void(const ParameterList&, const Tensor&)> GptRun::first_weights() const {
  if (from.empty()) return nullptr;
  return [folder = from](const ParameterList& parameters, const Tensor& weights) {
    load_gpt_weights(folder, parameters, weights);
  };
}

parallel::MakeOptimizer GptRun::optimizer() const {
  return
      [decay = weight_decay, beta = beta2](const ParameterList& parameters, const Tensor& weights) {
        return make_adamw(parameters, weights, decay, 0.9, beta);
      };
}

std::int64_t TextExamples::validation_size() const {
  return text_->validation.evaluation_windows(context_);
}

Batch TextExamples::batch(const Part& part) const {
  if (part.step == Part::validation)
    return text_->validation.evaluation_batch(part.first, part.last, context_);
  return text_->training.batch(seed_, part.step, part.first, part.last, context_);
}

Tensor TextExamples::inputs(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).inputs, shape(part), device);
}

Tensor TextExamples::targets(const Part& part, const DevicePtr& device) const {
  return from_host(batch(part).targets, shape(part), device);
}

}  // namespace plangrad::examples
