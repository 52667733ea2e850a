// The table of models, and what a microbatch of each looks like. Chapter 02.
#include "parallel/planner/models.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "nn/models/resnet.h"

namespace plangrad::parallel {
namespace {

constexpr int words = 51200;  // as Megatron pads them

constexpr std::pair<const char*, GptConfig> gpts[] = {
    // Radford et al. 2019, table 2: the smallest GPT-2.
    {"gpt2-124m", {}},
    // Narayanan et al. 2021 (PipeDream-2BW), section 5, and the authors' driver_sweep.py.
    {"2bw-2.2b", {.layers = 32, .heads = 32, .width = 2304, .context = 512, .vocabulary = words}},
    {"2bw-3.8b", {.layers = 32, .heads = 32, .width = 3072, .context = 512, .vocabulary = words}},
    // Brown et al. 2020, table 2.1, with the heads of Singh and Bhatele 2023 (SAMO), table I.
    {"gpt3-xl", {.layers = 24, .heads = 16, .width = 2048, .context = 2048, .vocabulary = words}},
    {"gpt3-2.7b", {.layers = 32, .heads = 32, .width = 2560, .context = 2048, .vocabulary = words}},
    {"gpt3-6.7b", {.layers = 32, .heads = 32, .width = 4096, .context = 2048, .vocabulary = words}},
    {"gpt3-13b", {.layers = 40, .heads = 40, .width = 5120, .context = 2048, .vocabulary = words}}};

/// ResNet-18 (He et al. 2016, section 4.2) on images of 32 x 32 in colour, with train_resnet's
/// optimizer.
PlannedModel planned_resnet() {
  const ResNetConfig config{.channels = 3, .size = 32};
  return {
      .name = "resnet18",
      .layers = resnet18(config),
      .input = {config.channels, config.size, config.size},
      .target = {},
      .optimizer = [](const ParameterList& parameters,
                      const Tensor& weights) { return make_sgd(parameters, weights, 0.9, 5e-4); },
      .program = "train_resnet",
      .flags = {{"--width", text(config.width)}}};
}

PlannedModel described_gpt(const std::string& file) {
  nlohmann::json found = nn::read_json(file);
  for (const char* place : {"/run/model", "/config/model", "/model"})
    if (const nlohmann::json::json_pointer at(place); found.contains(at))
      found = nlohmann::json(found.at(at));
  try {
    return planned_gpt(file, gpt_config(found));
  } catch (const Error& error) {
    throw Error(text(file, ": ", error.what()));
  }
}

}  // namespace

PlannedModel planned_gpt(const std::string& name, const GptConfig& config) {
  return {.name = name,
          .layers = gpt(config),
          .input = {config.context},
          .target = {config.context},
          .vocabulary = config.vocabulary,
          .program = "train_gpt",
          .flags = {{"--layers", text(config.layers)},
                    {"--heads", text(config.heads)},
                    {"--width", text(config.width)},
                    {"--context", text(config.context)},
                    {"--untied", config.tied ? "false" : "true"}}};
}

std::vector<std::string> planned_models() {
  std::vector<std::string> names;
  for (const auto& [name, config] : gpts) names.push_back(name);
  names.push_back("resnet18");
  return names;
}

PlannedModel planned_model(const std::string& name) {
  for (const auto& [known, config] : gpts)
    if (known == name) return planned_gpt(name, config);
  if (name == "resnet18") return planned_resnet();
  if (std::filesystem::is_regular_file(name)) return described_gpt(name);
  throw Error(fmt::format("{}: no such model, and no file{}; the models are {}", name,
                          did_you_mean(name, planned_models()), fmt::join(planned_models(), ", ")));
}

}  // namespace plangrad::parallel
