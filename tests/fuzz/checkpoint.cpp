// Writes what a run writes, without a run.
#include "tests/fuzz/checkpoint.h"

#include <nlohmann/json.hpp>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/text/vocabulary.h"

namespace plangrad::fuzz {

using namespace nn;
using nlohmann::json;

void write_checkpoint(const std::filesystem::path& folder) {
  const ParameterList parameters = whole_parameters(gpt(small_gpt));
  const Tensor weights = empty({parameters.numel()}, DType::f32, cpu_device());
  initialize(parameters, weights, 1);
  const auto file =
      write_checkpoint_file(folder, "model", 3, parameters, {{"", weights}, {"moment", weights}});
  const json rank{{"thresholds", {{"0", {{0, {0.5, 2.0, 1.0}}}}}}, {"uses", 2}};
  const json layout{{"codec", "threshold:0.5"},
                    {"channel", "none"},
                    {"cuts", {0, 3}},
                    {"ranks", 2},
                    {"per_step", 2},
                    {"reduction", "scatter"},
                    {"hosts", json::array()}};
  const json flags{{"--data", "text.txt"}, {"--layers", 1},     {"--heads", 2},
                   {"--width", 4},         {"--context", 3},    {"--batch", 2},
                   {"--steps", 6},         {"--clip", 1.0},     {"--dtype", "f32"},
                   {"--seed", 1},          {"--untied", false}, {"--dropout", 0.0}};
  commit_checkpoint(folder, 3,
                    {{"program", "train_gpt"},
                     {"model", to_json(small_gpt)},
                     {"vocabulary", CharVocabulary("abcde").to_json()},
                     {"flags", flags},
                     {"data", 12345},
                     {"bits", {{"wte.weight", 4}}},
                     {"codec", {{"layout", layout}, {"numbers", {rank, rank}}}}},
                    {file});
}

std::string unsealed(const std::string& manifest) {
  json all = json::parse(manifest);
  all["version"] = 1;
  all.erase("checksum");
  for (json& file : all["files"]) file.erase("checksums");
  return all.dump(2);
}

}  // namespace plangrad::fuzz
