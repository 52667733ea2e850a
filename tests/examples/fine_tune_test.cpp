// train_gpt --from: training begins with the weights of a GPT-2 folder, in every layout.

#include "nn/checkpoint/file.h"
#include "nn/checkpoint/safetensors.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// A short run's export, to begin from, and the commands of runs that do.
struct FineTuning : Runs {
  explicit FineTuning(const Words& more = {}) {
    train("base", Words{"--steps", "30", "--layers", "2", "--learning-rate", "0.01"} + more);
  }

  std::string base = path("base") + "/huggingface";

  /// The command of a run that begins with the base's weights.
  Words from_base(const std::string& name, const Words& more = {}) const {
    return Words{"train_gpt", "--from", base,      "--data", data,       "--out", path(name),
                 "--batch",   "4",      "--steps", "6",      "--warmup", "2"} +
           more;
  }
  void tune(const std::string& name, const Words& more = {}) const {
    succeed(from_base(name, more));
  }
};

}  // namespace

TEST_CASE("fine-tuning begins where the folder's model is") {
  const FineTuning runs;
  const double loss = summary_of(runs.path("base"))["validation_loss"];
  const Words still{"--steps",         "1",     "--warmup",       "0",
                    "--learning-rate", "1e-20", "--weight-decay", "0"};
  runs.tune("still", still);
  CHECK(summary_of(runs.path("still"))["validation_loss"] == loss);
  runs.tune("staged", still + Words{"--stages", "4", "--microbatches", "2"});
  CHECK(summary_of(runs.path("staged"))["validation_loss"] == loss);

  // The exports have the same bytes as the base's, since no weight has changed.
  const auto before = files_in(runs.base), after = files_in(runs.path("still") + "/huggingface");
  CHECK(before.size() == 6);
  CHECK(before == after);
}

// One rank adds up a tied table's gradients in another order than two stages do (chapter 5).
TEST_CASE("fine-tuning has the same bits in every layout") {
  const FineTuning runs({"--untied"});
  runs.tune("one", {"--microbatches", "4"});
  CHECK(summary_of(runs.path("one"))["validation_loss"] <
        summary_of(runs.path("base"))["validation_loss"]);
  runs.tune("pipeline", {"--schedule", "1f1b", "--stages", "3", "--microbatches", "4"});
  runs.tune("drained",
            {"--schedule", "gpipe", "--stages", "2", "--microbatches", "4", "--recompute"});
  for (const char* name : {"pipeline", "drained"})
    CHECK(losses_of(runs.path(name)).back() == losses_of(runs.path("one")).back());

  runs.tune("replicas", {"--data-parallel", "2"});
  runs.tune("sharded", {"--data-parallel", "2", "--zero", "3"});
  CHECK(losses_of(runs.path("sharded")).back() == losses_of(runs.path("replicas")).back());

  const Words half{"--prune", "0.5", "--prune-after", "2"};
  runs.tune("masked", half);
  runs.tune("samo", half + Words{"--samo"});
  CHECK(losses_of(runs.path("samo")).back() == losses_of(runs.path("masked")).back());

  runs.tune("codec", {"--data-parallel", "2", "--codec", "quantize:8"});
  CHECK(summary_of(runs.path("codec"))["validation_loss"] !=
        summary_of(runs.path("replicas"))["validation_loss"]);
}

TEST_CASE("a fine-tuned run is resumed without the folder that it began from") {
  const FineTuning runs;
  runs.tune("whole");
  runs.tune("parts", {"--stop-after", "3"});
  CHECK_FALSE(fs::exists(runs.path("parts") + "/huggingface"));  // only a complete run is exported
  fs::remove(runs.base + "/model.safetensors");
  runs.resume("parts", {"--stages", "2"});
  CHECK(losses_of(runs.path("parts")).back() == losses_of(runs.path("whole")).back());
}

TEST_CASE("a run beside the model that it began with is read and exported with its own weights") {
  const FineTuning runs;
  const std::string both = runs.path("both");
  const auto weights = [&](const std::string& folder) {
    return plangrad::nn::read_file(runs.path(folder) + "/model.safetensors");
  };
  runs.tune("apart");
  fs::copy(runs.base, both);
  runs.tune("both", {"--from", both});
  CHECK(weights("both/huggingface") == weights("apart/huggingface"));
  const Finished again = run({"checkpoint", "export", both, runs.path("again")});
  CHECK_THAT(again.errors, Contains("a run and a config.json: the run's weights are taken"));
  CHECK_THAT(run(runs.from_base("none", {"--from", both, "--layers", "9"})).errors,
             Contains("holds a run and a config.json: its model is taken"));
  CHECK(weights("again") == weights("apart/huggingface"));
  runs.folder.write("apart/config.json", R"({"lr": 1})");  // of another program
  runs.resume("apart", {"--steps", "7"});
  CHECK(weights("apart/huggingface") != weights("again"));
}

TEST_CASE("flags that contradict the folder's model are refused by name") {
  const FineTuning runs;
  auto refused = [&](const Words& more, const std::string& part) {
    CAPTURE(more);
    check_ended(run(runs.from_base("refused", more)), 2, part);
    CHECK_FALSE(fs::exists(runs.path("refused")));
  };
  refused({"--layers", "3"},
          "--layers 3: the model in " + runs.base + " has 2; leave this flag out");
  refused({"--width", "32"}, "--width 32: the model in");
  refused({"--untied"}, "--untied: the model in");
  refused({"--vocab", "bytes"}, "knows 11 tokens, and --vocab bytes has 256");
  refused({"--resume", runs.path("base")}, "a resumed run has its own weights");
  refused({"--from", runs.path("base")}, "the model that the run exported is in " + runs.base);
  for (const char* file : {"/model.safetensors", "/config.json", "/tokenizer.json"}) {
    const std::string cure = std::string(file) + " is a file: name its folder: " + runs.base;
    refused({"--from", runs.base + file}, cure);
    check_ended(run({"sample_gpt", "--from", runs.base + file}), 2, cure);
  }
  refused({"--from", runs.path("nothing")}, "no file " + runs.path("nothing") + "/config.json");
  runs.succeed(runs.from_base("agreeing", {"--layers", "2", "--width", "16"}));
}

namespace {

/// Writes the model of one folder to another, with rows that only pad its table: multiples of
/// others, so that one of them has the largest logit wherever it is looked at.
void write_padded(const fs::path& from, const fs::path& to) {
  using namespace plangrad::nn;
  fs::copy(from, to);
  fs::remove(to / "model.safetensors");
  const SafetensorsFile file((from / "model.safetensors").string());
  std::vector<SafetensorsSource> sources;
  std::vector<std::vector<float>> values;
  for (const SafetensorsEntry& entry : file.entries()) values.push_back(to_floats(entry));
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SafetensorsEntry& entry = file.entries()[i];
    Shape shape = entry.shape;
    if (entry.name.ends_with("wte.weight")) {
      for (float factor : {1000.0f, -1000.0f})
        for (std::int64_t c = 0; c < shape[1]; ++c) values[i].push_back(factor * values[i][c]);
      rows = shape[0] + 2;
      shape = {rows, shape[1]};
    }
    sources.push_back(
        {entry.name, "F32", shape, [&values, i] { return std::as_bytes(std::span(values[i])); }});
  }
  write_safetensors((to / "model.safetensors").string(), {}, sources);
  json config = json::parse(read_file(from / "config.json"));
  config["vocab_size"] = rows;
  write_file(to / "config.json", config.dump());
  fs::remove(to / "plangrad-checksums.txt");  // as another program would write it
}

}  // namespace

TEST_CASE("rows that pad a model's table are loaded and trained with, and never sampled") {
  const FineTuning runs;
  const std::string padded = runs.path("padded");
  write_padded(runs.base, padded);
  const Words greedy{"--prompt", "abc", "--tokens", "20", "--temperature", "0"};
  auto text_of = [&](const std::string& from) {
    return succeeded(run(Words{"sample_gpt", "--from", from} + greedy)).output;
  };
  CHECK(text_of(padded) == text_of(runs.base));

  const Words tune{"train_gpt", "--from",  padded, "--data", runs.data,          "--batch",
                   "4",         "--steps", "4",    "--out",  runs.path("tuned"), "--stop-after",
                   "2"};
  const Finished first = succeeded(run(tune));
  CHECK_THAT(first.output, Contains("a vocabulary of 13 (the data's largest id is 10)"));
  runs.resume("tuned");
  text_of(runs.path("tuned"));
  text_of(runs.path("tuned") + "/huggingface");
  const Finished other = run(tune + Words{"--vocab", "chars", "--out", runs.path("other")});
  CHECK_THAT(other.errors, Contains("its model knows 13 tokens, and --vocab chars has 11"));
}

TEST_CASE("a token that was added to a vocabulary alone may not occur") {
  Runs runs;
  const std::string pairs = runs.path("pairs");
  runs.succeed({"train_vocabulary", "--data", runs.data, "--size", "262", "--out", pairs});
  runs.train("base", {"--vocab", pairs});
  const std::string folder = runs.path("base") + "/huggingface", file = folder + "/tokenizer.json";
  json tokenizer = json::parse(plangrad::nn::read_file(file));
  tokenizer["added_tokens"].push_back({{"id", 262}, {"content", "<|pad|>"}});
  plangrad::nn::write_file(file, tokenizer.dump());
  CHECK_THAT(run({"sample_gpt", "--from", folder}).errors,
             Contains("tokenizer.json is not as it was exported") &&
                 Contains("if another program changed the file on purpose, remove " + folder));
  fs::remove(folder + "/plangrad-checksums.txt");
  auto sample = [&](const std::string& prompt) {
    return run({"sample_gpt", "--from", folder, "--prompt", prompt, "--tokens", "5"});
  };
  CHECK(sample("abc").status == 0);
  CHECK_THAT(sample("a<|pad|>").errors, Contains("--prompt has token 262, which was added"));
  const std::string text = runs.path("text");
  auto tune = [&](const std::string& words) {
    plangrad::nn::write_file(text, words);
    return run({"train_gpt", "--from", folder, "--data", text, "--batch", "2", "--steps", "2",
                "--out", runs.path("tuned")});
  };
  std::string words;
  for (int i = 0; i < 400; ++i) words += "abc ";
  CHECK_THAT(tune(words + "<|pad|>").errors, Contains("has token 262, which was added"));
  CHECK(tune(words).status == 0);
}

TEST_CASE("a run's export has a tokenizer and is gone once its weights are") {
  const Runs runs;
  const std::string pairs = runs.path("pairs");
  runs.succeed({"train_vocabulary", "--data", runs.data, "--size", "262", "--out", pairs});
  runs.train("run", {"--vocab", fs::relative(pairs).string() + "/vocab.json"});
  const Finished shown = run({"checkpoint", "show", runs.path("run")});
  CHECK_THAT(shown.output, Contains("--vocab /") && Contains(pairs + "/vocab.json"));
  const std::string folder = runs.path("run") + "/huggingface";
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json",
                           "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"})
    CHECK(fs::exists(folder + "/" + name));
  const auto config = json::parse(plangrad::nn::read_file(folder + "/config.json"));
  CHECK(config["eos_token_id"] == 261);  // <|endoftext|>, the last token
  CHECK(json::parse(plangrad::nn::read_file(folder + "/generation_config.json"))["eos_token_id"] ==
        261);

  auto greedy = [](const std::string& from) {
    const Finished text = succeeded(run(
        {"sample_gpt", "--from", from, "--prompt", "abc", "--tokens", "9", "--temperature", "0"}));
    return text.output;
  };
  const std::string written = greedy(runs.path("run"));
  CHECK(greedy(folder) == written);
  CHECK(greedy(runs.path("run") + "/checkpoint") == written);
  fs::create_directory(runs.path("lora"));
  std::ofstream(runs.path("lora") + "/adapter_model.safetensors") << "PK";
  const Finished lora = run({"sample_gpt", "--from", runs.path("lora")});
  CHECK(lora.status == 2);
  CHECK_THAT(lora.errors, Contains("has no config.json") && Contains("merge_and_unload()"));
  fs::remove(folder + "/vocab.json");  // tokenizer.json is enough
  CHECK(greedy(folder) == written);
  runs.succeed({"sample_gpt", "--from", runs.path("run"), "--export", runs.path("again")});
  CHECK(files_in(runs.path("again")).size() == 8);

  runs.train("run", {"--stop-after", "2"});  // another run in the folder, which is not complete
  CHECK_FALSE(fs::exists(folder));
}
