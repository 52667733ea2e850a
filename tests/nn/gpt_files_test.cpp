// GPT-2 folders in Hugging Face's layout: weights land where they belong, what we export is read
// back, and everything that the network does not compute is refused by name.
// Not here: logits against the original implementation (gpt_reference_test.cpp).
#include "nn/checkpoint/gpt_files.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "autograd/backend.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/safetensors.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/guarded_device.h"
#include "tests/references.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using plangrad::tests::guarded_device;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// A matrix or vector of a file: whole numbers that F16 and BF16 hold exactly.
struct Values {
  Shape shape;
  std::vector<float> numbers;

  Values() = default;
  Values(const std::string& name, Shape size) : shape(std::move(size)), numbers(shape.numel()) {
    int start = std::accumulate(name.begin(), name.end(), 0);
    for (float& number : numbers) number = static_cast<float>((start += 37) % 251 - 125);
  }
};

/// IEEE half precision of a whole number below 2048.
std::uint16_t half_of(float number) {
  if (number == 0) return 0;
  int exponent = 0;
  float fraction = std::frexp(std::fabs(number), &exponent);
  return static_cast<std::uint16_t>((number < 0) << 15 | (exponent + 14) << 10 |
                                    static_cast<int>(2048 * fraction - 1024));
}

template <class T>
std::string packed(const std::vector<float>& numbers, T (*convert)(float)) {
  std::string bytes;
  for (float number : numbers) {
    T value = convert(number);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  return bytes;
}

std::string bytes_in(const std::string& dtype, const std::vector<float>& numbers) {
  if (dtype == "F8_E4M3") return std::string(numbers.size(), '1');
  if (dtype == "F16") return packed<std::uint16_t>(numbers, half_of);
  if (dtype == "BF16") return packed<bf16>(numbers, [](float x) { return bf16(x); });
  return packed<float>(numbers, [](float x) { return x; });
}

/// A folder of GPT-2 with 2 layers, 2 heads, width 4, context 3, 5 tokens; gone when the test ends.
struct Folder : plangrad::tests::TemporaryFolder {
  std::map<std::string, Values> tensors;
  json config = {{"model_type", "gpt2"},
                 {"n_layer", 2},
                 {"n_head", 2},
                 {"n_embd", 4},
                 {"n_positions", 3},
                 {"vocab_size", 5},
                 {"layer_norm_epsilon", 1e-05},
                 {"activation_function", "gelu_new"},
                 {"n_inner", nullptr},
                 {"resid_pdrop", 0.1}};

  Folder() {
    auto add = [&](const std::string& name, Shape shape) { tensors[name] = Values(name, shape); };
    auto norm = [&](const std::string& name) {
      add(name + ".weight", {4});
      add(name + ".bias", {4});
    };
    auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      add(name + ".weight", {in, out});
      add(name + ".bias", {out});
    };
    add("wte.weight", {5, 4});
    add("wpe.weight", {3, 4});
    for (std::string block : {"h.0", "h.1"}) {
      norm(block + ".ln_1");
      linear(block + ".attn.c_attn", 4, 12);
      linear(block + ".attn.c_proj", 4, 4);
      norm(block + ".ln_2");
      linear(block + ".mlp.c_fc", 4, 16);
      linear(block + ".mlp.c_proj", 16, 4);
    }
    norm("ln_f");
  }

  void write(const std::string& dtype = "F32", const std::string& prefix = "") const {
    write_file(path / "config.json", config.dump());
    std::vector<std::string> data;
    for (const auto& [name, values] : tensors) data.push_back(bytes_in(dtype, values.numbers));
    std::vector<SafetensorsSource> sources;
    for (const auto& [name, values] : tensors)
      sources.push_back({(name == "lm_head.weight" ? "" : prefix) + name, dtype, values.shape,
                         [&, i = sources.size()] { return std::as_bytes(std::span(data[i])); }});
    write_safetensors((path / "model.safetensors").string(), {}, sources);
  }
};

/// Layers [first, last), or all, of the folder's network and a buffer for their weights.
struct Network {
  DevicePtr device = guarded_device();
  GptConfig config;
  Stage stage;
  Tensor weights;

  explicit Network(const fs::path& folder, DType dtype = DType::f32, int first = 0, int last = 0)
      : config(read_gpt_config(folder)),
        stage(gpt(config), first, last ? last : config.layers + 2),
        weights(zeros({stage.parameters().numel()}, dtype, device)) {}
};

/// Number of weights that are not what the folder's file says.
std::size_t count_wrong(const Network& network, const Folder& folder) {
  std::size_t wrong = 0;
  for (const Parameter& parameter : network.stage.parameters()) {
    const auto& [shape, numbers] = folder.tensors.at(parameter.name);
    auto loaded = to_host(network.weights.window(parameter.offset, parameter.shape));
    bool matrix = parameter.name.starts_with("h.") && shape.rank() == 2;
    std::int64_t in = matrix ? shape[0] : 1, out = shape.numel() / in;
    for (std::int64_t i = 0; i < in; ++i)
      for (std::int64_t o = 0; o < out; ++o)
        wrong += loaded[matrix ? o * in + i : o] != numbers[i * out + o];
  }
  return wrong;
}

/// Checks that layers [first, last) get the folder's weights.
void check_loads(const Folder& folder, DType dtype = DType::f32, int first = 0, int last = 0) {
  Network network(folder.path, dtype, first, last);
  load_gpt_weights(folder.path, network.stage.parameters(), network.weights);
  CHECK(count_wrong(network, folder) == 0);
}

/// The message with which loading the folder is refused, on one line.
std::string refusal(const Folder& folder) {
  const std::string message = plangrad::tests::error_of([&] { check_loads(folder); });
  CHECK_THAT(message, Contains(folder.path.string()) && !Contains("\n"));
  return message;
}

}  // namespace

TEST_CASE("a Hugging Face folder of any float type fills a network or its stages") {
  Folder folder;
  for (std::string dtype : {"F32", "F16", "BF16"})
    for (std::string prefix : {"", "transformer."}) {
      folder.write(dtype, prefix);
      for (DType type : {DType::f32, DType::bf16, DType::f64})
        for (auto [first, last] : {std::pair(0, 4), std::pair(0, 2), std::pair(2, 4)})
          check_loads(folder, type, first, last);
    }
}

TEST_CASE("the config becomes ours") {
  Folder folder;
  folder.write();
  const auto check = [&](const GptConfig& config) {
    CHECK(to_json(read_gpt_config(folder.path)) == to_json(config));
  };
  check({2, 2, 4, 3, 5, 0, true});
  folder.config.erase("n_positions");
  folder.config["n_ctx"] = 7;
  folder.config["n_inner"] = 16;
  folder.config["tie_word_embeddings"] = false;
  folder.write();
  check({2, 2, 4, 7, 5, 0, false});
  for (const auto& [ours, other] : {std::pair("n_layer", "num_hidden_layers"),
                                    {"n_head", "num_attention_heads"},
                                    {"n_embd", "hidden_size"},
                                    {"n_ctx", "max_position_embeddings"}}) {
    folder.config[other] = 1 + folder.config[ours].get<int>();
    folder.write();
    CHECK_THROWS_WITH(read_gpt_config(folder.path),
                      Contains(text(ours, " is ")) && Contains("names of one size"));
    folder.config[other] = folder.config[ours];
    folder.config.erase(ours);
  }
  folder.write();
  check({2, 2, 4, 7, 5, 0, false});

  folder.config = {{"model_type", "gpt2"}};  // all else as Hugging Face's GPT2Config has it
  folder.write();
  fs::resize_file(folder.path / "model.safetensors", 1 << 30);
  check({12, 12, 768, 1024, 50257, 0, true});
}

TEST_CASE("causal masks are skipped, a tied head may be in the file, an untied one must be") {
  Folder folder;
  folder.tensors["h.0.attn.bias"] = Values("mask", {1, 1, 3, 3});
  folder.tensors["h.1.attn.masked_bias"] = Values("mask", {});
  folder.tensors["lm_head.weight"] = folder.tensors["wte.weight"];
  folder.write("F32", "transformer.");
  check_loads(folder);

  folder.tensors["lm_head.weight"].numbers[3] += 1;
  folder.write("F32", "transformer.");
  CHECK_THAT(refusal(folder), Contains("lm_head.weight differs from wte.weight"));

  folder.config["tie_word_embeddings"] = false;
  folder.write("F32", "transformer.");
  check_loads(folder);
  folder.tensors.erase("lm_head.weight");
  folder.write();
  CHECK_THAT(refusal(folder), Contains("has no tensor lm_head.weight (5,4)"));
}

TEST_CASE("a config that the network does not compute is refused by name") {
  auto with = [](const std::string& name, const json& value) {
    Folder folder;
    folder.config[name] = value;
    folder.write();
    return refusal(folder);
  };
  CHECK_THAT(with("model_type", "bert"),
             Contains("model_type is \"bert\"; plangrad's GPT supports only"));
  CHECK_THAT(with("activation_function", "relu"), Contains("activation_function is \"relu\""));
  CHECK_THAT(with("layer_norm_epsilon", 1e-6), Contains("layer_norm_epsilon is 1e-06"));
  CHECK_THAT(with("scale_attn_weights", false), Contains("scale_attn_weights is false"));
  CHECK_THAT(with("scale_attn_by_inverse_layer_idx", true), Contains("inverse_layer_idx is true"));
  CHECK_THAT(with("add_cross_attention", true), Contains("add_cross_attention is true"));
  CHECK_THAT(with("n_inner", 32),
             Contains("n_inner is 32; plangrad's GPT supports only 4 * n_embd = 16") &&
                 Contains("take one of GPT-2's kind, or train one anew"));
  for (const json& bad : {json(0), json(-1), json(1.5), json("2"), json(1ll << 31), json()})
    CHECK_THAT(with("n_layer", bad), Contains("n_layer is " + bad.dump() + ", expected a whole"));
  CHECK_THAT(with("n_head", 3), Contains("the width must be a multiple of the heads"));
  CHECK_THAT(with("tie_word_embeddings", "yes"), Contains("it is not the JSON object"));

  Folder folder;
  CHECK_THAT(refusal(folder), Contains("no file "));
  folder.config.erase("vocab_size");
  folder.config.erase("model_type");
  folder.write();
  CHECK_THAT(refusal(folder), Contains("vocab_size is missing"));
  write_file(folder.path / "config.json", "{\"n_layer\":");
  CHECK_THAT(refusal(folder), Contains("this is no JSON"));
  write_file(folder.path / "config.json", "{\"n_layer\": NaN}");
  CHECK_THAT(refusal(folder), Contains("this is no JSON, which has no NaN"));
  write_file(folder.path / "config.json", "[]");
  CHECK_THAT(refusal(folder), Contains("n_layer is missing"));
}

TEST_CASE("a model file that is not the config's is refused") {
  auto check = [](auto change, const std::string& part) {
    Folder folder;
    change(folder);
    folder.write();
    CHECK_THAT(refusal(folder), Contains(part));
  };
  check([](Folder& f) { f.tensors.erase("h.1.mlp.c_fc.weight"); },
        "has no tensor h.1.mlp.c_fc.weight (4,16)");
  check(
      [](Folder& f) {
        f.tensors["h.1.mlp.c_fc.weight"] = Values("x", {16, 4});
      },
      "h.1.mlp.c_fc.weight is (16,4), config.json asks for (4,16)");
  check([](Folder& f) { f.config["n_layer"] = 1; },
        "has a tensor \"h.1.attn.c_attn.bias\" (12), which the network of config.json");
  check([](Folder& f) { f.config["vocab_size"] = 6; },
        "wte.weight is (5,4), config.json asks for (6,4)");
  check([](Folder& f) { f.tensors["transformer.ln_f.bias"] = Values("x", {4}); },
        "has \"ln_f.bias\" twice, with and without a prefix");
  for (const auto& [name, cure] :
       {std::pair("base_model.model.transformer.h.0.attn.c_attn.lora_A.default.weight", "unload()"),
        {"score.weight", "save the GPT2LMHeadModel without it"},
        {"v_head.summary.weight", "save the GPT2LMHeadModel without it"}})
    check([name = name](Folder& f) { f.tensors[name] = Values("x", {4}); }, cure);

  Folder folder;
  folder.write("I32");
  CHECK_THAT(refusal(folder), Contains("holds I32, expected F32"));
  folder.write("F8_E4M3");
  CHECK_THAT(refusal(folder), Contains("holds F8_E4M3, expected F32") && Contains("as BF16"));
  folder.write();
  Network network(folder.path);
  CHECK_THROWS_WITH(
      load_gpt_weights(folder.path, network.stage.parameters(), network.weights.window(0, {3})),
      Contains("the buffer to fill is f32 (3)"));
  GptConfig wide = network.config;
  wide.width = 8;
  Stage other(gpt(wide), 2, 3);
  CHECK_THROWS_WITH(
      load_gpt_weights(folder.path, other.parameters(),
                       zeros({other.parameters().numel()}, DType::f32, guarded_device())),
      Contains("h.1.ln_1.weight is (4), the model asks for (8)"));
  fs::remove(folder.path / "model.safetensors");
  CHECK_THAT(refusal(folder), Contains("/model.safetensors: check the path"));
}

TEST_CASE("weights in parts are read by their index") {
  Folder folder;
  const fs::path whole = folder.path / "model.safetensors";
  const std::map<std::string, Values> all = folder.tensors;
  json names = json::object();
  for (const auto& [part, of_block] : {std::pair("model-00001-of-00002.safetensors", true),
                                       {"model-00002-of-00002.safetensors", false}}) {
    std::erase_if(folder.tensors, [of = of_block](const auto& tensor) {
      return tensor.first.starts_with("h.0") != of;
    });
    for (const auto& [name, values] : folder.tensors) names[name] = part;
    folder.write();
    fs::rename(whole, folder.path / part);
    folder.tensors = all;
  }
  CHECK_THAT(refusal(folder), Contains("has no model.safetensors, but model-0000"));
  auto write_index = [&](const json& map) {
    write_file(folder.path / "model.safetensors.index.json", json{{"weight_map", map}}.dump());
  };
  write_index(names);
  check_loads(folder);
  write_file(folder.path / "model.safetensors.index.json", "[]");
  CHECK_THAT(refusal(folder), Contains("it is not the JSON object of an index"));
  names["wte.weight"] = "../other.safetensors";
  write_index(names);
  CHECK_THAT(refusal(folder), Contains("is not the name of a file in its folder"));
  names["wte.weight"] = "model-00003-of-00003.safetensors";
  write_index(names);
  CHECK_THAT(refusal(folder), Contains("which is not there: download all of its parts"));
  names["wte.weight"] = "";
  write_index(names);
  CHECK_THAT(refusal(folder), Contains("is a folder: name a file in it"));
}

TEST_CASE("weights of other kinds are named, with what to do") {
  Folder folder;
  folder.write();
  const fs::path whole = folder.path / "model.safetensors";
  write_file(whole, "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n");
  CHECK_THAT(refusal(folder),
             Contains("model.safetensors is a Git LFS pointer") && Contains("\"git lfs pull\""));
  write_file(whole, "<!DOCTYPE html><html>");
  CHECK_THAT(refusal(folder), Contains("model.safetensors is a web page"));
  fs::remove(whole);
  const std::pair<const char*, const char*> others[] = {
      {"model.fp16.safetensors", "rename it"},
      {"manifest.json", "of a run's checkpoint: name the run's folder huggingface/"},
      {"model.gguf", "use the model that it was converted from"},
      {"model.onnx", "use the model that it was converted from"},
      {"weights.npz", "use the model that it was converted from"},
      {"model.ckpt.index", "save_pretrained"},
      {"pytorch_model.bin", "save_pretrained"},
      {"adapter_model.safetensors", "merge_and_unload"}};
  for (const auto& [name, remedy] : others) {
    write_file(folder.path / name, "PK");
    CHECK_THAT(other_weights(folder.path), StartsWith(name) && Contains(remedy));
    fs::remove(folder.path / name);
  }
  for (const char* name : {"d.pt", "b.bin", "c.bin"}) write_file(folder.path / name, "PK");
  CHECK_THAT(refusal(folder), Contains("has no model.safetensors, but b.bin: load it in Python"));
  fs::remove(folder.path / "config.json");
  CHECK_THAT(refusal(folder), Contains("has no config.json, but b.bin: load it in Python"));
  for (const char* answer : {"<html>", R"({"error": "Repository not found"})", "404: Not Found",
                             "{\n  \"message\": \"Not Found\"\n}", R"({"error":{"code":404}})",
                             "{\r\n\t\"error\":\t\"Not Found\"\r\n}"}) {
    write_file(folder.path / "config.json", answer);
    CHECK_THAT(refusal(folder), Contains("config.json is a web page or a server's error, not"));
  }
  CHECK(foreign_kind(R"({"error": 0, "message": 1})").empty());  // as a vocabulary may begin
}

TEST_CASE("names and settings that other tools write are read") {
  Folder folder;
  for (const auto& [activation, prefix] : {std::pair("gelu_pytorch_tanh", "_orig_mod.transformer."),
                                           {"gelu_fast", "module._orig_mod.module.transformer."},
                                           {"gelu_new", "base_model.model.transformer."},
                                           {"gelu_new", "model."}}) {
    folder.config["activation_function"] = activation;
    folder.config["tie_word_embeddings"] = nullptr;
    folder.config["scale_attn_weights"] = nullptr;
    folder.write("F32", prefix);
    check_loads(folder);
  }
  // A tied model may have its table under the head's name alone.
  folder.tensors["lm_head.weight"] = folder.tensors["wte.weight"];
  const auto table = folder.tensors.extract("wte.weight");
  folder.write();
  folder.tensors["wte.weight"] = table.mapped();
  check_loads(folder);
  folder.tensors.erase("lm_head.weight");
  folder.tensors["h.0.attn.c_attn.weight"].shape = {12, 4};
  folder.write();
  CHECK_THAT(refusal(folder), Contains("is (12,4), config.json asks for (4,12); it lies as in"));
}

TEST_CASE("what is exported is read back, bit for bit") {
  Folder folder;
  for (bool tied : {true, false}) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      GptConfig config{2, 2, 4, 3, 5, 0, tied};
      Stage stage(gpt(config), 0, 4);
      Tensor weights = zeros({stage.parameters().numel()}, dtype, guarded_device());
      initialize(stage.parameters(), weights, 1);
      write_gpt_folder(folder.path / "out", config, stage.parameters(), weights);

      Network back(folder.path / "out", dtype);
      load_gpt_weights(folder.path / "out", back.stage.parameters(), back.weights);
      CHECK(back.config.tied == tied);
      CHECK(to_host(back.weights) == to_host(weights));
      SafetensorsFile file((folder.path / "out/model.safetensors").string());
      CHECK(file.metadata().at("format") == "pt");
      const auto tensors = plangrad::tests::tensors_of(file);
      CHECK(tensors.at("transformer.h.1.mlp.c_fc.weight").shape == Shape{4, 16});
      CHECK(tensors.contains("lm_head.weight") == !tied);
    }
  }
}

TEST_CASE("an export of less than a network, or to an impossible folder, is refused") {
  Folder folder;
  folder.write();
  Network network(folder.path), part(folder.path, DType::f32, 0, 3);
  const fs::path taken = folder.path / "config.json" / "out";
  CHECK_THROWS_WITH(
      write_gpt_folder(folder.path / "out", part.config, part.stage.parameters(), part.weights),
      Contains("holds a whole GPT"));
  CHECK_THROWS_WITH(write_gpt_folder(folder.path / "out", network.config,
                                     network.stage.parameters(), part.weights),
                    Contains("the buffer to write is f32"));
  CHECK_THROWS_WITH(
      write_gpt_folder(taken, network.config, network.stage.parameters(), network.weights),
      Contains("can't create the folder"));
  CHECK_FALSE(fs::exists(folder.path / "out"));
}
