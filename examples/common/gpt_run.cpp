// The flags of train_gpt, an estimate of the memory that a run needs, and sequences of text, copied
// to a rank's device.
// Chapters 02 and 05.
#include "examples/common/gpt_run.h"

#include "examples/common/program.h"

namespace paragrad::examples {

GptRun::GptRun() {
  program = "train_gpt";
  examples = "sequences";
  kind_of_data = "text";
}

void GptRun::add_flags(CLI::App& app) {
  Flags flags(app);
  flags.group("Model");
  flags.whole("--layers", model.layers, 1, "transformer blocks");
  flags.whole("--heads", model.heads, 1, "attention heads");
  flags.whole("--width", model.width, 1, "channels, a multiple of --heads");
  flags.whole("--context", model.context, 1, "tokens that a prediction can see");
  flags.number("--dropout", model.dropout, 0, 0.99, "share of activations dropped in training");
  flags.yes("--untied", untied, "give the head weights of its own instead of the embedding's");
  flags.words("--vocab", vocabulary, "NAME",
              "chars, bytes, or a vocab.json next to its merges.txt (default: chars for text)");

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

void GptRun::parse(CLI::App& app, int argc, char** argv) {
  RunFlags::parse(app, argc, argv,
                  {"--layers", "--heads", "--width", "--context", "--dropout", "--untied",
                   "--batch", "--seed", "--dtype"});
  PG_CHECK(!data.empty(), "--data FILE is needed: a text; examples/data/download.sh fetches one");
  check();
  check_model();
  model.tied = !untied;
  // Save absolute paths, so that a run can be resumed from another folder.
  saved["--data"] = std::filesystem::absolute(data).string();
  if (!validation.empty()) saved["--validation"] = std::filesystem::absolute(validation).string();
}

/// Checks a lower bound of the memory that training needs; chapter 03 explains the terms.
void GptRun::check_model() const {
  GptConfig config = model;
  config.vocabulary = 1;  // not known before the data
  config.check();
  double width = model.width, layers = model.layers, context = model.context;
  double parameters = layers * 12 * width * width;
  double rows = parts.smallest_share(batch, ranks) * context * (parts.recompute ? 1 : 16);
  double bytes = 16 * parameters + (dtype == "bf16" ? 2 : 4) * rows * width * layers;
  check_memory(bytes,
               "fewer --layers, a smaller --width, --context or --batch, or more --microbatches");
}

TextData GptRun::load_data() const {
  bool cut_into_characters = vocabulary.empty() && data.extension() != ".bin";
  return load_text_data(data, validation, cut_into_characters ? "chars" : vocabulary);
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

}  // namespace paragrad::examples
