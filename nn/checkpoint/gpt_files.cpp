// Reads and writes GPT-2's files. Checks config.json and all tensors' names and shapes before any
// value: settings and tensors that our network does not have are errors. Transposes the weights of
// Hugging Face's Conv1D. Chapter 02.
#include "nn/checkpoint/gpt_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "autograd/backend.h"
#include "nn/checkpoint/safetensors.h"

namespace plangrad::nn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The names of one function, GELU by tanh.
constexpr std::array activations{"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast",
                                 "gelu_accurate"};

/// Settings that are fixed in nn/models/gpt.h; if config.json has them, their values must agree.
json built_in() {
  return {{"model_type", "gpt2"},
          {"layer_norm_epsilon", 1e-5},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"add_cross_attention", false}};
}

/// A value of config.json for an error: the beginning of a long one.
std::string shown(const json& value) { return value.dump().substr(0, 200); }

/// Reads a size under any of its `names`, which must agree; a config of type gpt2 may lack it.
int size_setting(const json& config, std::initializer_list<const char*> names, int standard) {
  const char* found = nullptr;
  for (const char* name : names) {
    if (!config.contains(name)) continue;
    const json& value = config[name];
    PG_CHECK(value.is_number_unsigned() && value > 0 && value <= INT32_MAX, name, " is ",
             shown(value), ", expected a whole number from 1 to 2^31 - 1");
    PG_CHECK(!found || config[found] == value, found, " is ", shown(config[found]), " and ", name,
             " is ", shown(value), ", names of one size; leave the right one");
    found = name;
  }
  if (found) return config[found].get<int>();
  PG_CHECK(config.contains("model_type") && config["model_type"] == "gpt2", *names.begin(),
           " is missing");
  return standard;
}

GptConfig parse_config(const json& config) {
  const json expected = built_in();
  const auto setting = [&](const std::string& name) {
    const auto found = config.find(name);  // null stands for the default
    return found == config.end() ? json() : *found;
  };
  for (const auto& [name, value] : expected.items())
    PG_CHECK(setting(name).is_null() || setting(name) == value, name, " is ", shown(setting(name)),
             "; plangrad's GPT supports only ", value.dump());
  const json activation = setting("activation_function");
  PG_CHECK(activation.is_null() || std::ranges::count(activations, activation) > 0,
           "activation_function is ", shown(activation),
           "; plangrad's GPT supports only \"gelu_new\" and its other names");
  GptConfig result;
  result.layers = size_setting(config, {"n_layer", "num_hidden_layers"}, 12);
  result.heads = size_setting(config, {"n_head", "num_attention_heads"}, 12);
  result.width = size_setting(config, {"n_embd", "hidden_size"}, 768);
  result.context = size_setting(config, {"n_positions", "n_ctx", "max_position_embeddings"}, 1024);
  result.vocabulary = size_setting(config, {"vocab_size"}, 50257);
  const json inner = setting("n_inner"), tied = setting("tie_word_embeddings");
  PG_CHECK(inner.is_null() || inner == 4ll * result.width, "n_inner is ", shown(inner),
           "; plangrad's GPT supports only 4 * n_embd = ", 4ll * result.width);
  result.tied = tied.is_null() || tied.get<bool>();
  result.check();
  return result;
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

using Weights = std::map<std::string, SafetensorsEntry>;

/// The tensors of all files under our names, without what wrappers such as torch.compile and peft
/// put before them, and without causal masks, which are not weights. A file may have the table of a
/// tied model under the head's name alone.
Weights weights_of(const std::vector<fs::path>& files, bool tied) {
  const std::set<std::string_view> wrappers{"_orig_mod.", "module.", "base_model.", "model.",
                                            "transformer."};
  Weights result;
  for (const fs::path& path : files) {
    const SafetensorsFile file(path.string());
    for (const SafetensorsEntry& entry : file.entries()) {
      std::string_view name = entry.name;
      while (wrappers.contains(name.substr(0, name.find('.') + 1)))
        name.remove_prefix(name.find('.') + 1);
      if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
      PG_CHECK(result.emplace(name, entry).second, path.string(), ": has ",
               format::in_quotes(std::string(name)),
               " twice, with and without a prefix like transformer.");
    }
  }
  if (tied && !result.contains("wte.weight") && result.contains("lm_head.weight"))
    result.emplace("wte.weight", result.extract("lm_head.weight").mapped());
  return result;
}

void check_type(const fs::path& path, const SafetensorsEntry& entry) {
  const std::string& type = entry.dtype;
  PG_CHECK(type == "F32" || type == "F16" || type == "BF16" || type == "F64", path.string(),
           ": tensor ", entry.name, " holds ", type, ", expected F32, F16, BF16 or F64; save the ",
           "model anew as BF16, without quantization");
}

/// Rejects a config that asks for more than the files of weights can hold, before the network is
/// built. F16 takes the fewest bytes, 2 for each parameter.
void check_size(const GptConfig& config, const std::vector<fs::path>& files) {
  const double width = config.width, block = 12 * width * width + 13 * width;
  const double rows = config.vocabulary * (config.tied ? 1.0 : 2.0) + config.context + 2;
  const double parameters = rows * width + config.layers * block;
  std::uint64_t bytes = 0;
  for (const fs::path& path : files) bytes += fs::file_size(path);
  if (2 * parameters <= static_cast<double>(bytes)) return;
  for (const auto& [name, entry] : weights_of(files, config.tied)) check_type(files[0], entry);
  throw Error(text(files[0].string(), " has ", bytes, " bytes, too few for the ",
                   fmt::format("{:.0f}", parameters),
                   " parameters of config.json; do the two files belong together?"));
}

/// Finds the tensor of a parameter; `asker` names what needs it, for the error.
const SafetensorsEntry& find(const std::string& path, const Weights& entries,
                             const Parameter& parameter, const char* asker) {
  const auto found = entries.find(parameter.name);
  const Shape expected = shape_in_file(parameter);
  PG_CHECK(found != entries.end(), path, ": has no tensor ", parameter.name, " ", expected,
           ", which ", asker, " asks for");
  const bool as_linear = found->second.shape == parameter.shape;  // as nanoGPT has it
  PG_CHECK(found->second.shape == expected, path, ": tensor ", parameter.name, " is ",
           found->second.shape, ", ", asker, " asks for ", expected,
           as_linear ? "; it lies as in torch.nn.Linear: store the transpose of the weights of "
                       "c_attn, c_proj and c_fc, as Hugging Face has them"
                     : "");
  return found->second;
}

/// Checks that the file holds exactly the network of the config.
void check_names(const std::string& path, const GptConfig& config, Weights found) {
  for (const auto& [name, entry] : found) {
    const std::string tensor = ": has a tensor " + format::in_quotes(name);
    PG_CHECK(name.find(".lora_") == name.npos, path, tensor,
             " of LoRA: merge it into its model with merge_and_unload() of the package peft");
    for (const char* head : {"score.", "classifier.", "qa_outputs.", "v_head."})
      PG_CHECK(!name.starts_with(head), path, tensor,
               ", the head of another task: in Python, save the GPT2LMHeadModel without it");
  }
  const Stage network(gpt(config), 0, config.layers + 2);
  for (const Parameter& parameter : network.parameters())
    check_type(path, find(path, found, parameter, "config.json"));
  if (config.tied && found.contains("lm_head.weight")) {
    const SafetensorsEntry &head = found["lm_head.weight"], &table = found["wte.weight"];
    PG_CHECK(head.dtype == table.dtype && head.bytes() == table.bytes(), path,
             ": lm_head.weight differs from wte.weight, though config.json ties them; set "
             "tie_word_embeddings to false there");
    found.erase("lm_head.weight");
  }
  for (const Parameter& parameter : network.parameters()) found.erase(parameter.name);
  PG_CHECK(found.empty(), path, ": has a tensor ", format::in_quotes(found.begin()->first), " ",
           found.begin()->second.shape, ", which the network of config.json does not have");
}

}  // namespace

std::vector<fs::path> weight_files(const fs::path& folder) {
  const fs::path whole = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(whole, ignored) || !fs::exists(index, ignored)) {
    const std::string others = fs::exists(whole, ignored) ? "" : other_weights(folder);
    PG_CHECK(others.empty(), folder.string(), " has no model.safetensors, but ", others);
    check_regular(whole);
    return {whole};
  }
  std::map<std::string, std::string> names;
  try {
    names = read_json(index).at("weight_map");
  } catch (const json::exception&) {
    throw Error(index.string() + ": is damaged: it is not the JSON object of an index");
  }
  std::set<fs::path> parts;
  for (const auto& [tensor, file] : names) {
    const fs::path name = file;
    PG_CHECK(name == name.filename(), index.string(), ": ", format::in_quotes(name.string()),
             " is not the name of a file in its folder");
    PG_CHECK(fs::exists(folder / name, ignored), index.string(), " names ",
             format::in_quotes(name.string()), ", which is not there: download all of its parts");
    check_regular(folder / name);
    parts.insert(folder / name);
  }
  PG_CHECK(!parts.empty(), index.string(), " names no file");
  return {parts.begin(), parts.end()};
}

std::string other_weights(const fs::path& folder) {
  std::map<std::string, std::string> remedies{
      {".safetensors", "if it holds all weights of the model, rename it"}};
  for (const char* kind : {".gguf", ".onnx", ".npz"})
    remedies[kind] = "use the model that it was converted from";
  for (const char* kind : {".bin", ".pt", ".pth", ".h5", ".msgpack", ".index"})
    remedies[kind] =
        "load it in Python with transformers, and write it anew with save_pretrained(NEW_FOLDER)";
  std::set<std::string> names;  // in their order, which a folder does not have
  std::error_code no_folder;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, no_folder))
    names.insert(entry.path().filename().string());
  if (const auto name = names.lower_bound("manifest");
      name != names.end() && name->starts_with("manifest"))
    return *name + ", of a run's checkpoint: name the run's folder huggingface/, or write such a " +
           "folder by \"checkpoint export RUN FOLDER\"";
  if (const char* name = "adapter_model.safetensors"; names.contains(name))
    return text(name, ", which changes another model (LoRA): merge it into that one with ",
                "merge_and_unload() of the package peft");
  for (const std::string& name : names)
    if (const auto found = remedies.find(fs::path(name).extension()); found != remedies.end())
      return name + ": " + found->second;
  return "";
}

GptConfig read_gpt_config(const fs::path& folder) {
  PG_CHECK(!fs::is_regular_file(folder), folder.string(),
           " is a file: name its folder: ", fs::absolute(folder).parent_path().string());
  const fs::path path = folder / "config.json";
  const std::string others = fs::exists(path) ? "" : other_weights(folder);
  PG_CHECK(others.empty(), folder.string(), " has no config.json, but ", others);
  const json all = read_json(path, most::config);
  GptConfig config;
  try {
    config = parse_config(all);
  } catch (const json::exception&) {
    throw Error(path.string() + ": is damaged: it is not the JSON object of a GPT-2 config");
  } catch (const Error& error) {
    throw Error(path.string() + ": " + error.what() +
                ". No flag changes what a model is: take one of GPT-2's kind, or train one anew");
  }
  check_size(config, weight_files(folder));
  return config;
}

void load_gpt_weights(const fs::path& folder, const ParameterList& parameters,
                      const Tensor& weights) {
  check_buffer(parameters, weights, "to fill");
  const GptConfig config = read_gpt_config(folder);
  const std::vector<fs::path> files = weight_files(folder);
  const std::string path = files.size() == 1 ? files[0].string() : folder.string();
  const Weights found = weights_of(files, config.tied);
  check_names(path, config, found);

  CategoryScope category(*weights.device(), Category::workspace);
  for (const Parameter& parameter : parameters) {
    const SafetensorsEntry& entry = find(path, found, parameter, "the model");
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
  settings["activation_function"] = activations[0];
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
