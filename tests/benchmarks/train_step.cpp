// Speed of a GPT's training step on one rank: tokens/s, and the share of the processor's measured
// matrix-product rate that the model's floating-point operations reach.
// Not here: comparison with other frameworks (tests/benchmarks/against_pytorch.py).
// Chapter 03.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "nn/gpt.h"
#include "nn/matmul_rate.h"
#include "nn/trainer.h"

namespace {

using namespace paragrad::nn;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Size {
  std::string name;
  GptConfig config;
  int batch;
};

/// Token ids without meaning: speed does not depend on them.
Tensor tokens(const Size& size, const DevicePtr& device) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(size.batch) * size.config.context);
  RandomKey key(1, "tokens");
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(uniform_integer(key, i, size.config.vocabulary));
  return from_host(ids, {size.batch, size.config.context}, device);
}

nlohmann::json measure(const Size& size, DType dtype, int steps) {
  DevicePtr device = cpu_device();
  double peak = matmul_rate(device);
  TrainerSettings settings;
  settings.dtype = dtype;
  Trainer trainer(gpt(size.config), settings, device);
  Tensor ids = tokens(size, device);
  for (int i = 0; i < 3; ++i) trainer.step(ids, ids);
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) {
    double start = now();
    trainer.step(ids, ids);
    seconds.push_back(now() - start);
  }
  peak = std::max(peak, matmul_rate(device));
  double rate = static_cast<double>(ids.numel()) / median(seconds);
  double flops = gpt_flops_per_token(size.config, size.config.context);
  return {{"size", size.name},
          {"dtype", name_of(dtype)},
          {"steps", steps},
          {"seconds_per_step", median(seconds)},
          {"tokens_per_second", rate},
          {"peak_gflops_f32", peak / 1e9},
          {"model_flops_utilization", rate * flops / peak}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Speed of a GPT training step, as a share of the matrix-product rate of this machine");
  std::string only, dtype_name;
  int steps = 20;
  bool json = false;
  app.add_option("--size", only, "small or larger; both if left out")
      ->check(CLI::IsMember({"small", "larger"}));
  app.add_option("--dtype", dtype_name, "f32 or bf16; both if left out")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--steps", steps, "steps that are timed")->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "one JSON object a line instead of a table");
  CLI11_PARSE(app, argc, argv);

  const Size sizes[] = {{"small", {4, 4, 128, 64, 65, 0, true}, 12},
                        {"larger", {6, 6, 384, 256, 65, 0, true}, 8}};
  if (!json)
    std::cout
        << "| size | dtype | tokens/s | ms a step | matrix-product peak, GFLOP/s | utilisation |\n"
           "| --- | --- | --- | --- | --- | --- |\n";
  for (const Size& size : sizes)
    for (DType dtype : {DType::f32, DType::bf16}) {
      if (!only.empty() && only != size.name) continue;
      if (!dtype_name.empty() && dtype_name != name_of(dtype)) continue;
      nlohmann::json result = measure(size, dtype, steps);
      if (json) {
        std::cout << result << std::endl;
        continue;
      }
      char row[200];
      std::snprintf(row, sizeof row, "| %s | %s | %.0f | %.1f | %.0f | %.0f%% |\n",
                    size.name.c_str(), name_of(dtype), result["tokens_per_second"].get<double>(),
                    1e3 * result["seconds_per_step"].get<double>(),
                    result["peak_gflops_f32"].get<double>(),
                    100 * result["model_flops_utilization"].get<double>());
      std::cout << row << std::flush;
    }
}
