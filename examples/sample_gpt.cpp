// sample_gpt: writes text with a GPT that train_gpt trained, or with GPT-2 files from Hugging Face.
// Not here: a cache of keys and values. Each token's forward pass reads the whole context again.
// Chapter 02.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/ops.h"
#include "examples/common/program.h"
#include "examples/common/rank_device.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/gpt_files.h"
#include "nn/models/gpt.h"
#include "nn/models/sample.h"
#include "nn/text/byte_pair.h"
#include "nn/text/vocabulary.h"

namespace {

using namespace paragrad::nn;

/// A model with its weights and its vocabulary.
struct Writer {
  GptConfig config;
  DevicePtr device;
  std::unique_ptr<Stage> stage;
  std::unique_ptr<Vocabulary> vocabulary;
  Tensor weights;

  const Tensor& build() {
    stage = std::make_unique<Stage>(gpt(config), 0, config.layers + 2);
    CategoryScope category(*device, Category::weights);
    return weights = empty({stage->parameters().numel()}, DType::f32, device);
  }
};

/// Reads a model from the folder of a training run (with checkpoint/) or from a Hugging Face folder
/// (with config.json).
/// throws: Error if there is no such model, or its vocabulary belongs to another model
Writer load(const std::filesystem::path& folder, const std::string& device) {
  Writer writer;
  writer.device = paragrad::examples::device_kind(device).make(0, /*graphs*/ false);
  auto build = [&] {
    PG_CHECK(writer.vocabulary->size() == writer.config.vocabulary, folder.string(),
             ": the model knows ", writer.config.vocabulary, " tokens, its vocabulary has ",
             writer.vocabulary->size(), "; put the files of one model into the folder");
    return writer.build();
  };
  if (std::filesystem::exists(folder / "config.json")) {
    writer.config = read_gpt_config(folder);
    PG_CHECK(std::filesystem::exists(folder / "vocab.json"), folder.string(),
             ": no vocab.json, which turns tokens into text; copy vocab.json and merges.txt there");
    writer.vocabulary = make_vocabulary((folder / "vocab.json").string(), "");
    const Tensor& weights = build();
    load_gpt_weights(folder, writer.stage->parameters(), weights);
    writer.stage->bind(weights);
    return writer;
  }
  Checkpoint checkpoint(folder / "checkpoint");
  PG_CHECK(checkpoint.run().contains("flags"), folder.string(),
           ": its checkpoint was not written by train_gpt");
  PG_CHECK(checkpoint.run().contains("vocabulary"), folder.string(),
           ": the model was trained on token ids without a vocabulary, so it can't write text");
  writer.config = gpt_config(checkpoint.run().at("model"));
  writer.vocabulary = load_vocabulary(checkpoint.run().at("vocabulary"));
  const Tensor& weights = build();
  checkpoint.check_model(writer.stage->parameters());
  checkpoint.load_weights(writer.stage->parameters(), weights);
  writer.stage->bind(weights);
  return writer;
}

/// Computes the logits of the token after `tokens`, from the last `context` of them.
std::vector<double> next_logits(Writer& writer, const std::vector<std::int32_t>& tokens) {
  NoGrad no_grad(*writer.device);
  std::size_t seen = std::min<std::size_t>(tokens.size(), writer.config.context);
  std::vector<std::int32_t> window(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end());
  std::int64_t length = static_cast<std::int64_t>(seen);
  Tensor logits = writer.stage->forward(from_host(window, {1, length}, writer.device), {});
  return to_host(slice(logits, 1, length - 1, length));
}

/// Returns a new line, or the first token if the vocabulary has no new line.
std::vector<std::int32_t> first_tokens(const Vocabulary& vocabulary) {
  try {
    return vocabulary.encode("\n");
  } catch (const Error&) {
    return {0};
  }
}

void write(Writer writer, const std::optional<std::string>& prompt, std::int64_t count,
           const SampleSettings& settings, std::uint64_t seed) {
  std::vector<std::int32_t> tokens =
      prompt ? writer.vocabulary->encode(*prompt) : first_tokens(*writer.vocabulary);
  PG_CHECK(!tokens.empty(), "--prompt is empty; give the model some text to continue");
  std::cout << writer.vocabulary->decode(tokens) << std::flush;
  RandomKey key(seed, "sample");
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(
        sample_token(next_logits(writer, tokens), settings, key, static_cast<std::uint64_t>(i)));
    std::cout << writer.vocabulary->decode(std::span(&tokens.back(), 1)) << std::flush;
  }
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes text with a trained GPT.", "sample_gpt");
  std::filesystem::path from = "out";
  std::string device = "cpu";
  std::optional<std::string> prompt;
  std::int64_t count = 200, seed = 1;
  SampleSettings settings;
  std::filesystem::path folder;
  paragrad::examples::Flags flags(app);
  flags.words("--from", from, "DIR", "folder of a train_gpt run, or of a GPT-2 from Hugging Face")
      ->capture_default_str();
  flags.words("--prompt", prompt, "TEXT", "text to continue (default: a new line)");
  flags.whole("--tokens", count, 1, "number of tokens to write");
  flags.number("--temperature", settings.temperature, 0, 1e30,
               "below 1 favours likely tokens; 0 always takes the likeliest");
  flags.whole("--top-k", settings.top_k, 0, "choose among this many likeliest tokens; 0: all");
  flags.whole("--seed", seed, 0, "seed of the random choices");
  flags.words(
      "--export", folder, "FOLDER",
      "instead of text, write the weights as GPT-2 files for Hugging Face; pruned weights are "
      "written as zeros");
  paragrad::examples::add_device_flag(flags, device);
  return paragrad::examples::run_program(app, [&] {
    app.parse(argc, argv);
    paragrad::examples::device_kind(device).prepare(1, false);
    for (const char* name : {"--prompt", "--tokens", "--temperature", "--top-k", "--seed"})
      PG_CHECK(folder.empty() || app.count(name) == 0, "--export writes no text; leave out ", name);
    Writer writer = load(from, device);
    if (folder.empty())
      write(std::move(writer), prompt, count, settings, static_cast<std::uint64_t>(seed));
    else
      write_gpt_folder(folder, writer.config, writer.stage->parameters(), writer.weights);
    return 0;
  });
}
