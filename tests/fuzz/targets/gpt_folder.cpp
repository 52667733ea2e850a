// A GPT in Hugging Face's layout: config.json and model.safetensors.
#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/gpt_files.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace nn;

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (bool tied : {false, true}) {
    const GptConfig config{1, 2, 4, 3, 5, 0, tied};
    const Stage network(gpt(config), 0, config.layers + 2);
    const Tensor weights = empty({network.parameters().numel()}, DType::f32, cpu_device());
    initialize(network.parameters(), weights, 1);
    write_gpt_folder(folder() / "seed", config, network.parameters(), weights);
    all.push_back(
        joined({read(folder() / "seed/config.json"), read(folder() / "seed/model.safetensors")}));
  }
  return all;
}

void read_input(const std::string& input) {
  const std::vector<std::string> files = parts_of(input, 2);
  write("gpt/config.json", files[0]);
  write("gpt/model.safetensors", files[1]);
  const GptConfig config = read_gpt_config(folder() / "gpt");
  const Stage network(gpt(config), 0, config.layers + 2);
  const Tensor weights = empty({network.parameters().numel()}, DType::f32, cpu_device());
  load_gpt_weights(folder() / "gpt", network.parameters(), weights);
}

}  // namespace plangrad::fuzz
