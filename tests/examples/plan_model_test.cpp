// `plan simulate --model`: the memory of a network that is only named, and what is refused.
// Not here: the numbers (tests/parallel/planner).
#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "tests/examples/plan_program.h"

using namespace plangrad::tests;

TEST_CASE("plan simulate tells the fullest rank of a named model, and the cell of its peak") {
  const Words words{"plan",     "simulate", "--schedule",     "gpipe", "--stages", "8",
                    "--model",  "2bw-2.2b", "--sequences",    "8",     "--dtype",  "bf16",
                    "--device", "gpu",      "--microbatches", "8"};
  CHECK_THAT(output_of(words), Contains("\nfullest rank          rank 6 in 6B0v0: "));
  CHECK_THAT(output_of(words), Contains("\nlayers of stages      0-") && Contains("-33\n"));
  const nlohmann::json memory = json_of(words)["memory"], &full = memory["fullest"];
  double at_peak = 0;
  for (const nlohmann::json& bytes : full["bytes"]) at_peak += bytes.get<double>();
  CHECK(memory["peaks"].size() == 8);
  CHECK(memory["peaks"][full["rank"].get<int>()] == at_peak);
  CHECK(full["cell"] == "6B0v0");
  CHECK(!full.contains("saving"));

  CHECK(!memory.contains("device"));
  const Words on_v100 = words + Words{"--machine", "v100-aws"};
  CHECK_THAT(output_of(on_v100),
             Contains("\ndevice memory         15.3 GB: ") && Contains(" GB too much\n"));
  CHECK_THAT(output_of(on_v100 + Words{"--recompute"}), Contains("15.3 GB: the plan fits\n"));
  CHECK(json_of(on_v100)["memory"]["device"] == 15.3e9);

  Words sharded = words;
  sharded[3] = "data", sharded[5] = "1";
  const nlohmann::json saved =
      json_of(sharded + Words{"--data-parallel", "2", "--zero", "1"})["memory"]["fullest"];
  CHECK(saved["saving"] > saved["bytes"]["optimizer"]);
}

TEST_CASE("plan simulate takes a model from the JSON that checkpoints have") {
  const plangrad::nn::GptConfig config{.layers = 3, .heads = 2, .width = 16, .vocabulary = 19};
  const nlohmann::json own = plangrad::nn::to_json(config);
  Folder folder;
  const std::string bare = folder.write("bare.json", own.dump());
  const std::string saved =
      folder.write("checkpoint.json", nlohmann::json{{"run", {{"model", own}}}}.dump());
  const auto memory = [&](const std::string& model) {
    return json_of({"plan", "simulate", "--schedule", "1f1b", "--stages", "2", "--model", model,
                    "--prune", "0.5"})["memory"];
  };
  CHECK(memory(bare) == memory(saved));
  CHECK(memory(bare)["fullest"]["bytes"]["indices"] > 0);
}

TEST_CASE("plan simulate sends a model's activations and their gradients, as the codec has them") {
  const plangrad::nn::GptConfig config{
      .layers = 3, .heads = 2, .width = 16, .context = 32, .vocabulary = 19, .tied = false};
  Folder folder;
  const std::string file = folder.write("model.json", plangrad::nn::to_json(config).dump());
  const auto sent = [&](const Words& more) {
    return json_of(Words{"plan", "simulate", "--schedule", "1f1b", "--stages", "2",
                         "--microbatches", "4", "--model", file, "--sequences", "3"} +
                   more)["bytes"]
        .get<std::int64_t>();
  };
  const std::int64_t messages = 2 * 4, values = 3 * 32 * 16;
  CHECK(sent({}) == messages * values * 4);
  CHECK(sent({"--dtype", "bf16"}) == messages * values * 2);
  CHECK(sent({"--codec-channel", "bf16"}) == messages * values * 2);
  // A gradient uses the indices of its activation.
  const std::int64_t sparse = sent({"--codec-channel", "topk:0.25"});
  CHECK(sparse < messages * values * 2);
  CHECK(sparse > messages * values);
}

TEST_CASE("plan simulate takes from a machine what a model's updates take") {
  const Words words{"plan", "simulate", "--schedule", "data",      "--stages",
                    "1",    "--model",  "gpt2-124m",  "--machine", "laptop"};
  const nlohmann::json found = json_of(words);
  CHECK(found["breakdown"]["update"] > 0);
  const nlohmann::json half = json_of(words + Words{"--data-parallel", "2", "--zero", "1"});
  CHECK_THAT(half["breakdown"]["ranks"][1]["update"].get<double>(),
             Catch::Matchers::WithinRel(found["breakdown"]["update"].get<double>() / 2, 1e-9));
  const nlohmann::json given = json_of(words + Words{"--step", "7"});
  CHECK_THAT(given["breakdown"]["update"].get<double>(), Catch::Matchers::WithinRel(7, 1e-9));
}

TEST_CASE("plan simulate refuses a model that is not known in one line with those that are") {
  const Words words{"plan", "simulate", "--schedule", "data", "--model"};
  check_refused(words + Words{"gpt3-12b"},
                "gpt3-12b: no such model, and no file; did you mean gpt3-13b?; the models are "
                "gpt2-124m, 2bw-2.2b, 2bw-3.8b, gpt3-xl, gpt3-2.7b, gpt3-6.7b, gpt3-13b, resnet18");
  Folder folder;
  check_refused(words + Words{folder.write("no.json", "{\"layers\": 3}")},
                "no.json: this is not the description of a GPT: context is missing; it needs ");
  check_refused(words + Words{folder.write("no.json", "layers")}, "this is no JSON");
  const std::string deep = repeat("[", 300'000) + repeat("]", 300'000);
  const std::string hostile = folder.write("summary.json", deep), refusal = "nested more than 100";
  check_refused(words + Words{hostile}, refusal);
  check_refused({"plan", "search", "--machine", "laptop", "--costs", folder / ""}, refusal);
  check_refused({"train_gpt", "--data", "x", "--plan-from", hostile}, refusal);
  check_refused(
      {"plan", "simulate", folder.write("own.plan", output_of(small_plan("show", "1f1b"))),
       "--model", "gpt2-124m"},
      "its stages share a table, and those of the plan nothing");
}
