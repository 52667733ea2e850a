// config.json of a GPT-2, and the index of its parts, as --from and sample_gpt read them.
#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/gpt_files.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace nn;

std::vector<std::string> seeds() {
  const GptConfig config{1, 2, 4, 3, 5, 0, false};
  const Stage network(gpt(config), 0, config.layers + 2);
  const Tensor weights = empty({network.parameters().numel()}, DType::f32, cpu_device());
  initialize(network.parameters(), weights, 1);
  write_gpt_folder(folder() / "gpt", config, network.parameters(), weights);
  std::filesystem::rename(folder() / "gpt/model.safetensors", folder() / "gpt/a.safetensors");
  const std::string index = R"({"metadata":{"total_size":9},"weight_map":{"wte.weight":)"
                            R"("a.safetensors","lm_head.weight":"a.safetensors"}})";
  // As transformers 5 writes it, with settings that are null or that we do not know.
  const std::string other =
      R"({"activation_function":"gelu_pytorch_tanh","architectures":["GPT2LMHeadModel"],)"
      R"("dtype":"float32","layer_norm_epsilon":1e-05,"model_type":"gpt2","n_ctx":3,"n_embd":4,)"
      R"("n_head":2,"n_inner":null,"n_layer":1,"scale_attn_weights":true,"summary_type":"first",)"
      R"("task_specific_params":{"text-generation":{"max_length":50}},"vocab_size":5,)"
      R"("tie_word_embeddings":false,"pad_token_id":null})";
  return {joined({read(folder() / "gpt/config.json"), index}), joined({other, index})};
}

void read_input(const std::string& input) {
  const std::vector<std::string> files = parts_of(input, 2);
  write("gpt/config.json", files[0]);
  write("gpt/model.safetensors.index.json", files[1]);
  const GptConfig config = read_gpt_config(folder() / "gpt");
  must(config.layers >= 1 && config.width % config.heads == 0, "a config makes no network");
  const Stage network(gpt(config), 0, config.layers + 2);
  const Tensor weights = empty({network.parameters().numel()}, DType::f32, cpu_device());
  load_gpt_weights(folder() / "gpt", network.parameters(), weights);
}

}  // namespace plangrad::fuzz
