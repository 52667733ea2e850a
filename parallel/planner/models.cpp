// The table of models. Vocabularies of AxoNN's and SAMO's GPTs have 51,200 words, as in Megatron.
// Chapter 02.
#include "parallel/planner/models.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/models/gpt.h"
#include "nn/models/resnet.h"

namespace plangrad::parallel {
namespace {

struct Named {
  const char *name, *source;
  GptConfig config;
};

constexpr int megatron_words = 51200;

const std::vector<Named>& gpts() {
  static const std::vector<Named> all{
      {"gpt2-124m", "GPT-2, the smallest: Radford et al. 2019, table 2", {}},
      {"2bw-2.2b",
       "PipeDream-2BW's: Narayanan et al. 2021, section 5, and the authors' driver_sweep.py",
       {.layers = 32, .heads = 32, .width = 2304, .context = 512, .vocabulary = megatron_words}},
      {"2bw-3.8b",
       "the larger one of the same",
       {.layers = 32, .heads = 32, .width = 3072, .context = 512, .vocabulary = megatron_words}},
      {"gpt3-xl",
       "GPT-3's, with the heads of Singh and Bhatele 2023, table I: Brown et al. 2020, table 2.1",
       {.layers = 24, .heads = 16, .width = 2048, .context = 2048, .vocabulary = megatron_words}},
      {"gpt3-2.7b",
       "the same",
       {.layers = 32, .heads = 32, .width = 2560, .context = 2048, .vocabulary = megatron_words}},
      {"gpt3-6.7b",
       "the same",
       {.layers = 32, .heads = 32, .width = 4096, .context = 2048, .vocabulary = megatron_words}},
      {"gpt3-13b",
       "the same",
       {.layers = 40, .heads = 40, .width = 5120, .context = 2048, .vocabulary = megatron_words}}};
  return all;
}

PlannedModel planned_gpt(const std::string& name, const GptConfig& config) {
  return {
      .name = name, .layers = gpt(config), .input = {config.context}, .target = {config.context}};
}

/// ResNet-18 on images of 32 x 32 in colour, with train_resnet's optimizer.
PlannedModel planned_resnet() {
  const ResNetConfig config{.channels = 3, .size = 32};
  return {.name = "resnet18",
          .layers = resnet18(config),
          .input = {config.channels, config.size, config.size},
          .target = {},
          .has_ids = false,
          .optimizer = [](const ParameterList& parameters, const Tensor& weights) {
            return make_sgd(parameters, weights, 0.9, 5e-4);
          }};
}

PlannedModel described_gpt(const std::string& file) {
  std::ifstream in(file);
  const nlohmann::json found = nlohmann::json::parse(in, nullptr, false);
  PG_CHECK(!found.is_discarded(), file, ": this is no JSON");
  for (const char* place : {"/run/model", "/model"})
    if (const nlohmann::json::json_pointer at(place); found.contains(at))
      return planned_gpt(file, gpt_config(found.at(at)));
  return planned_gpt(file, gpt_config(found));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> planned_models() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Named& each : gpts()) all.emplace_back(each.name, each.source);
  all.emplace_back("resnet18", "for images of 32 x 32: He et al. 2016, section 4.2");
  return all;
}

PlannedModel planned_model(const std::string& name) {
  for (const Named& each : gpts())
    if (each.name == name) return planned_gpt(name, each.config);
  if (name == "resnet18") return planned_resnet();
  if (std::filesystem::is_regular_file(name)) return described_gpt(name);
  std::vector<std::string> names;
  std::string list;
  for (const auto& [known, source] : planned_models()) {
    names.push_back(known);
    list += (list.empty() ? "" : ", ") + known;
  }
  throw Error(text(name, ": no such model, and no file", did_you_mean(name, names),
                   "; the models are ", list));
}

}  // namespace plangrad::parallel
