// sample_gpt: writes text with a GPT that train_gpt trained, or with GPT-2 files from Hugging Face.
// Not here: reading models (examples/programs/run_folder.h), and a cache of keys and values: each
// token's forward pass reads the whole context again. Chapter 02.

#include "autograd/ops.h"
#include "examples/programs/exports.h"
#include "examples/programs/program.h"
#include "examples/programs/rank_device.h"
#include "examples/programs/run_folder.h"
#include "nn/text/byte_pair.h"

namespace {

using namespace plangrad::nn;
using namespace plangrad::examples;

/// Computes the logits of the token after `tokens`, from the last `context` of them: one for each
/// token of the vocabulary, and none for rows that only pad the model's table.
std::vector<double> next_logits(LoadedGpt& gpt, const std::vector<std::int32_t>& tokens) {
  const DevicePtr& device = gpt.weights.device();
  NoGrad no_grad(*device);
  std::size_t seen = std::min<std::size_t>(tokens.size(), gpt.config.context);
  std::vector<std::int32_t> window(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end());
  std::int64_t length = static_cast<std::int64_t>(seen);
  Tensor logits = gpt.stage->forward(from_host(window, {1, length}, device), {});
  std::vector<double> next = to_host(slice(logits, 1, length - 1, length));
  next.resize(std::min<std::size_t>(next.size(), gpt.vocabulary->size()));
  return next;
}

/// Returns a new line, or the first token if the vocabulary has no new line.
std::vector<std::int32_t> first_tokens(const Vocabulary& vocabulary) {
  try {
    return vocabulary.encode("\n");
  } catch (const Error&) {
    return {0};
  }
}

void write(LoadedGpt gpt, const std::optional<std::string>& prompt, std::int64_t count,
           const SampleSettings& settings, std::uint64_t seed, bool one_text) {
  const auto* pairs = dynamic_cast<const BytePairVocabulary*>(gpt.vocabulary.get());
  const std::optional<std::int32_t> end = one_text && pairs ? pairs->separator() : std::nullopt;
  std::vector<std::int32_t> tokens = prompt ? usage([&] { return gpt.vocabulary->encode(*prompt); })
                                            : first_tokens(*gpt.vocabulary);
  if (tokens.empty()) throw UsageError("--prompt is empty; give the model some text to continue");
  for (std::int32_t token : tokens)
    if (token >= gpt.config.vocabulary)
      throw UsageError(text("--prompt has token ", token, ", which was added to the vocabulary: ",
                            "the model knows ", gpt.config.vocabulary));
  PrintablePieces pieces;  // a character may take several tokens
  std::cout << pieces.take(gpt.vocabulary->decode(tokens)) << std::flush;
  RandomKey key(seed, "sample");
  for (std::int64_t i = 0; i < count && (i == 0 || tokens.back() != end); ++i) {
    tokens.push_back(
        sample_token(next_logits(gpt, tokens), settings, key, static_cast<std::uint64_t>(i)));
    std::cout << pieces.take(gpt.vocabulary->decode(std::span(&tokens.back(), 1))) << std::flush;
  }
  std::cout << pieces.rest() << std::endl;
}

/// The folder to read, which is the newest run's if none is named.
std::filesystem::path folder_to_read(const std::filesystem::path& from) {
  if (!from.empty()) return from;
  PG_CHECK(std::filesystem::exists(latest_run / "checkpoint"),
           "there is no run in runs/ yet: train one with train_gpt --data FILE, or name a folder ",
           "with --from DIR");
  tell(text("from ", std::filesystem::canonical(latest_run).filename().string(),
            ", the newest run in runs/"));
  return latest_run;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags("Writes text with a trained GPT.", "sample_gpt");
  std::filesystem::path from, folder;
  std::string device = "cpu";
  std::optional<std::string> prompt;
  std::int64_t count = 200, seed = 1;
  bool one_text = false;
  SampleSettings settings;
  flags.words("--from", from, "DIR",
              "folder of a train_gpt run, or of a GPT-2 in Hugging Face's layout (default: "
              "runs/latest, the newest run without --out)");
  flags.words("--prompt", prompt, "TEXT", "text to continue (default: a new line)");
  flags.whole("--tokens", count, 1, "number of tokens to write");
  flags.number("--temperature", settings.temperature, 0, limits::large,
               "below 1 favours likely tokens; 0 always takes the likeliest");
  flags.whole("--top-k", settings.top_k, 0, "choose among this many likeliest tokens; 0: all");
  flags.whole("--seed", seed, 0, "seed of the random choices");
  flags.yes("--stop-at-end", one_text,
            "write no more once the model ends the text with <|endoftext|>");
  flags.words(
      "--export", folder, "FOLDER",
      "instead of text, write model, configuration and tokenizer for Hugging Face, into a "
      "folder that is new, empty or an earlier export; pruned weights are written as zeros");
  add_device_flag(flags, device);
  add_examples(flags,
               {{"Continue a sentence with the newest run", "sample_gpt --prompt 'Once upon'"},
                {"Always take the likeliest token of a GPT-2 from Hugging Face",
                 "sample_gpt --from gpt2 --prompt 'Hello' --temperature 0 --tokens 20"},
                {"Write a run for transformers",
                 "sample_gpt --from runs/mine --export runs/mine_for_transformers"}});
  return run_program(flags, [&] {
    flags.parse(argc, argv);
    const bool exports = flags.given("--export");
    LoadedGpt gpt = usage([&] {
      device_kind(device).prepare(1, false);
      for (const char* name :
           {"--prompt", "--tokens", "--temperature", "--top-k", "--seed", "--stop-at-end"})
        PG_CHECK(!exports || !flags.given(name), "--export writes no text; leave out ", name);
      LoadedGpt loaded = load_gpt(folder_to_read(from),
                                  device_kind(device).make(0, /*graphs*/ false, /*tf32*/ false));
      PG_CHECK(loaded.vocabulary || exports, from.string(), ": the model was trained on ",
               "token ids without a vocabulary, so it can't write text; --export can write it");
      return loaded;
    });
    if (exports)
      export_gpt(gpt, folder);
    else
      write(std::move(gpt), prompt, count, settings, static_cast<std::uint64_t>(seed), one_text);
    return 0;
  });
}
