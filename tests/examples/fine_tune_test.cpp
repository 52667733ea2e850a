// train_gpt --from: training begins with the weights of a GPT-2 folder, in every layout.
#include <fstream>

#include "nn/checkpoint/file.h"
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
  CHECK(before.size() == 5);
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

TEST_CASE("flags that contradict the folder's model are refused by name") {
  const FineTuning runs;
  auto refused = [&](const Words& more, const std::string& part) {
    CAPTURE(more);
    const Finished result = run(runs.from_base("refused", more));
    CHECK(result.status == 2);
    CHECK_THAT(result.errors, Contains(part));
    CHECK_FALSE(fs::exists(runs.path("refused")));
  };
  refused({"--layers", "3"},
          "--layers 3: the model in " + runs.base + " has 2; leave this flag out");
  refused({"--width", "32"}, "--width 32: the model in");
  refused({"--untied"}, "--untied: the model in");
  refused({"--vocab", "bytes"}, "knows 11 tokens, and --vocab bytes has 256");
  refused({"--resume", runs.path("base")}, "a resumed run has its own weights");
  refused({"--from", runs.path("base")}, "the model that the run exported is in " + runs.base);
  refused({"--from", runs.path("nothing")}, "no file " + runs.path("nothing") + "/config.json");
  runs.succeed(runs.from_base("agreeing", {"--layers", "2", "--width", "16"}));
}

TEST_CASE("a run's export has a tokenizer and is gone once its weights are") {
  const Runs runs;
  const std::string pairs = runs.path("pairs");
  runs.succeed({"train_vocabulary", "--data", runs.data, "--size", "262", "--out", pairs});
  runs.train("run", {"--vocab", pairs + "/vocab.json"});
  const std::string folder = runs.path("run") + "/huggingface";
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json",
                           "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"})
    CHECK(fs::exists(folder + "/" + name));
  const auto config = json::parse(plangrad::nn::read_file(folder + "/config.json"));
  CHECK(config["eos_token_id"] == 261);  // <|endoftext|>, the last token
  CHECK(json::parse(plangrad::nn::read_file(folder + "/generation_config.json"))["eos_token_id"] ==
        261);

  auto greedy = [](const std::string& from) {
    const Finished text = run(
        {"sample_gpt", "--from", from, "--prompt", "abc", "--tokens", "9", "--temperature", "0"});
    INFO(text.errors);
    CHECK(text.status == 0);
    return text.output;
  };
  const std::string written = greedy(runs.path("run"));
  CHECK(greedy(folder) == written);
  CHECK(greedy(runs.path("run") + "/checkpoint") == written);
  fs::remove(folder + "/vocab.json");  // tokenizer.json is enough
  CHECK(greedy(folder) == written);
  runs.succeed({"sample_gpt", "--from", runs.path("run"), "--export", runs.path("again")});
  CHECK(files_in(runs.path("again")).size() == 7);

  runs.train("run", {"--stop-after", "2"});  // another run in the folder, which is not complete
  CHECK_FALSE(fs::exists(folder));
}
