// Reads and writes GPT-2's files. Checks config.json and all tensors' names and shapes before any
// value: settings and tensors that our network does not have are errors. Transposes the weights of
// Hugging Face's Conv1D. Chapter 02.
#include "nn/checkpoint/gpt_files.h"

#include <nlohmann/json.hpp>

#include "autograd/backend.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/safetensors.h"

namespace plangrad::nn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Settings that are fixed in nn/models/gpt.h; if config.json has them, their values must agree.
json built_in() {
  return {{"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"add_cross_attention", false}};
}

/// Reads a positive whole number, under the first of `names` that the config has.
int size_setting(const json& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!config.contains(name)) continue;
    const json& value = config[name];
    PG_CHECK(value.is_number_unsigned() && value > 0 && value <= INT32_MAX, name, " is ",
             value.dump(), ", expected a whole number from 1 to 2^31 - 1");
    return value.get<int>();
  }
  throw Error(text(*names.begin(), " is missing"));
}

GptConfig parse_config(const json& config) {
  const json expected = built_in();
  for (const auto& [name, value] : expected.items())
    PG_CHECK(!config.contains(name) || config[name] == value, name, " is ", config[name].dump(),
             "; plangrad's GPT supports only ", value.dump());
  GptConfig result;
  result.layers = size_setting(config, {"n_layer"});
  result.heads = size_setting(config, {"n_head"});
  result.width = size_setting(config, {"n_embd"});
  result.context = size_setting(config, {"n_positions", "n_ctx"});
  result.vocabulary = size_setting(config, {"vocab_size"});
  json inner = config.value("n_inner", json());
  PG_CHECK(inner.is_null() || inner == 4ll * result.width, "n_inner is ", inner.dump(),
           "; plangrad's GPT supports only 4 * n_embd = ", 4ll * result.width);
  result.tied = config.value("tie_word_embeddings", true);
  result.check();
  return result;
}

/// Rejects a config that asks for more than the file of weights can hold, before the network is
/// built. F16 takes the fewest bytes, 2 for each parameter.
void check_size(const GptConfig& config, const fs::path& file) {
  check_regular(file);
  const double width = config.width, block = 12 * width * width + 13 * width;
  const double rows = config.vocabulary * (config.tied ? 1.0 : 2.0) + config.context + 2;
  const double parameters = rows * width + config.layers * block;
  const auto bytes = fs::file_size(file);
  PG_CHECK(2 * parameters <= static_cast<double>(bytes), file.string(), " has ", bytes,
           " bytes, too few for the ", parameters,
           " parameters of config.json; do the two files belong together?");
}

/// Whether Hugging Face stores this weight as (In,Out), as its class Conv1D does.
bool lies_transposed(const std::string& name) {
  return name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") ||
         name.ends_with("c_fc.weight");
}

Shape shape_in_file(const Parameter& parameter) {
  if (!lies_transposed(parameter.name)) return parameter.shape;
  return {parameter.shape[1], parameter.shape[0]};
}

/// Converts a parameter's values from our layout to the file's, or back.
Tensor turned(const Parameter& parameter, const Tensor& x) {
  if (!lies_transposed(parameter.name)) return x;
  const Tensor y = workspace({x.size(1), x.size(0)}, x.dtype(), x.device());
  x.backend().permute(x, {1, 0}, y);
  return y;
}

/// The file's tensors under our names, without causal masks, which are not weights.
std::map<std::string, SafetensorsEntry> weights_of(const SafetensorsFile& file) {
  const std::string prefix = "transformer.";
  std::map<std::string, SafetensorsEntry> result;
  for (const SafetensorsEntry& entry : file.entries()) {
    bool prefixed = entry.name.starts_with(prefix);
    std::string name = prefixed ? entry.name.substr(prefix.size()) : entry.name;
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    PG_CHECK(result.emplace(name, entry).second, file.path(), ": has ", name,
             " with and without the prefix ", prefix);
  }
  return result;
}

/// Finds the tensor of a parameter; `asker` names what needs it, for the error.
const SafetensorsEntry& find(const std::string& path,
                             const std::map<std::string, SafetensorsEntry>& entries,
                             const Parameter& parameter, const char* asker) {
  const auto found = entries.find(parameter.name);
  const Shape expected = shape_in_file(parameter);
  PG_CHECK(found != entries.end(), path, ": has no tensor ", parameter.name, " ", expected,
           ", which ", asker, " asks for");
  PG_CHECK(found->second.shape == expected, path, ": tensor ", parameter.name, " is ",
           found->second.shape, ", ", asker, " asks for ", expected);
  return found->second;
}

/// Checks that the file holds exactly the network of the config.
void check_names(const std::string& path, const GptConfig& config,
                 std::map<std::string, SafetensorsEntry> found) {
  const Stage network(gpt(config), 0, config.layers + 2);
  for (const Parameter& parameter : network.parameters()) {
    const std::string& dtype = find(path, found, parameter, "config.json").dtype;
    PG_CHECK(dtype == "F32" || dtype == "F16" || dtype == "BF16" || dtype == "F64", path,
             ": tensor ", parameter.name, " holds ", dtype, ", expected F32, F16, BF16 or F64");
  }
  if (config.tied && found.contains("lm_head.weight")) {
    const SafetensorsEntry &head = found["lm_head.weight"], &table = found["wte.weight"];
    PG_CHECK(head.dtype == table.dtype && head.bytes() == table.bytes(), path,
             ": lm_head.weight differs from wte.weight, though config.json ties them; set "
             "tie_word_embeddings to false there");
    found.erase("lm_head.weight");
  }
  for (const Parameter& parameter : network.parameters()) found.erase(parameter.name);
  PG_CHECK(found.empty(), path, ": has a tensor ", found.begin()->first, " ",
           found.begin()->second.shape, ", which the network of config.json does not have");
}

}  // namespace

GptConfig read_gpt_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  const std::string bytes = read_file(path, most::config);
  GptConfig config;
  try {
    config = parse_config(parse_json(bytes));
  } catch (const json::exception&) {
    throw Error(path.string() + ": is damaged: it is not the JSON object of a GPT-2 config");
  } catch (const Error& error) {
    throw Error(path.string() + ": " + error.what());
  }
  check_size(config, folder / "model.safetensors");
  return config;
}

void load_gpt_weights(const fs::path& folder, const ParameterList& parameters,
                      const Tensor& weights) {
  check_buffer(parameters, weights, "to fill");
  const SafetensorsFile file((folder / "model.safetensors").string());
  const auto found = weights_of(file);
  check_names(file.path(), read_gpt_config(folder), found);

  CategoryScope category(*weights.device(), Category::workspace);
  for (const Parameter& parameter : parameters) {
    const SafetensorsEntry& entry = find(file.path(), found, parameter, "the model");
    const Tensor values = from_host(to_floats(entry), entry.shape, weights.device());
    weights.backend().copy(turned(parameter, values),
                           weights.window(parameter.offset, parameter.shape));
  }
}

void write_gpt_folder(const fs::path& folder, const GptConfig& config,
                      const ParameterList& parameters, const Tensor& weights,
                      std::optional<int> end_of_text) {
  check_buffer(parameters, weights, "to write");
  auto same = [](const Parameter& a, const Parameter& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  const Stage network(gpt(config), 0, config.layers + 2);
  PG_CHECK(std::ranges::equal(parameters, network.parameters(), same),
           "a Hugging Face folder holds a whole GPT; these parameters are not a whole one's");
  std::vector<std::byte> host;  // holds one tensor at a time
  std::vector<SafetensorsSource> tensors;
  for (const Parameter& parameter : parameters) {
    bool head = parameter.name == "lm_head.weight";
    tensors.push_back({(head ? "" : "transformer.") + parameter.name,
                       safetensors_dtype(weights.dtype()), shape_in_file(parameter), [&] {
                         const Tensor part =
                             turned(parameter, weights.window(parameter.offset, parameter.shape));
                         host.resize(part.bytes());
                         part.backend().copy_to_host(part, host.data());
                         return std::span<const std::byte>(host);
                       }});
  }
  make_folder(folder);
  write_safetensors((folder / "model.safetensors").string(), {{"format", "pt"}}, tensors);

  json settings = built_in();
  settings.update({{"architectures", {"GPT2LMHeadModel"}},
                   {"n_layer", config.layers},
                   {"n_head", config.heads},
                   {"n_embd", config.width},
                   {"n_positions", config.context},
                   {"vocab_size", config.vocabulary},
                   {"tie_word_embeddings", config.tied}});
  const json end = end_of_text ? json(*end_of_text) : json();  // null, or it is taken for GPT-2's
  const json ends{{"bos_token_id", end}, {"eos_token_id", end}};
  settings.update(ends);
  write_file(folder / "config.json", settings.dump(2) + "\n");
  write_file(folder / "generation_config.json", ends.dump(2) + "\n");
}

}  // namespace plangrad::nn
