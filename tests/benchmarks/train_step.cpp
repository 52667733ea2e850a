// Speed of a GPT's training step on one rank: tokens/s, and the share of the processor's measured
// matrix-product rate that the model's floating-point operations reach.
// Not here: comparison with other frameworks (tests/benchmarks/against_pytorch.py). Chapter 03.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/engine/engine.h"
#include "parallel/observers/run_record.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/threads_transport.h"
#include "tests/benchmarks/gpt_sizes.h"

namespace {

using namespace plangrad::benchmarks;

/// Seconds of each step of a plan, after three to warm up.
std::vector<double> time_steps(const Size& size, DType dtype, int steps, const DevicePtr& device) {
  Training training(gpt(size.config), 1);
  training.dtype = dtype;
  SameTokens tokens(size, 1);
  ThreadsWorld world(1);
  Engine engine(training, world.transport(0), device, {});
  engine.run(verify(make_plan("data", {.steps = 3, .clip = true})), tokens);
  Layout layout{.steps = steps, .first = 3, .clip = true};
  std::vector<double> seconds;
  double before = 0;
  for (auto [version, at] : engine.run(verify(make_plan("data", layout)), tokens).stepped) {
    seconds.push_back(at - before);
    before = at;
  }
  return seconds;
}

nlohmann::json measure(const Size& size, DType dtype, int steps) {
  DevicePtr device = cpu_device();
  double peak = matmul_rate(device);
  double seconds = median(time_steps(size, dtype, steps, device));
  peak = std::max(peak, matmul_rate(device));
  double rate = size.batch * size.config.context / seconds;
  double flops = gpt_flops_per_token(size.config, size.config.context);
  return {{"size", size.name},
          {"dtype", name_of(dtype)},
          {"steps", steps},
          {"seconds_per_step", seconds},
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
