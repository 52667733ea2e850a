// A whole folder of a run: its manifest and its data file, as sample_gpt and --resume read them.
#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "examples/programs/run_folder.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/program.h"

namespace plangrad::fuzz {

using namespace examples;

std::vector<std::string> seeds() {
  write_checkpoint(folder() / "seed/checkpoint");
  const std::string manifest = read(folder() / "seed/checkpoint/manifest.json");
  const std::string model = read(folder() / "seed/checkpoint/model-3.safetensors");
  return {joined({manifest, model}), joined({unsealed(manifest), model})};
}

void read_input(const std::string& input) {
  const std::vector<std::string> files = parts_of(input, 2);
  write("run/checkpoint/manifest.json", files[0]);
  write("run/checkpoint/model-3.safetensors", files[1]);
  try {
    parsed({"--resume", (folder() / "run").string(), "--out", "new"});  // which needs no lock
  } catch (const autograd::Error&) {
  }
  load_gpt(folder() / "run", cpu_device());
}

}  // namespace plangrad::fuzz
