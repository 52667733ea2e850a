// Speed of a GPT's training step on one device: tokens/s, the share of the device's measured rate
// of matrix products that the model's operations reach, and the memory that it takes.
// Not here: the same on the CPU (train_step.cpp), PyTorch (gpu_pytorch.py).
// Chapter 12; Chowdhery et al. 2022 (PaLM), appendix B.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "examples/programs/program.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/threads_transport.h"
#include "tests/benchmarks/device_clock.h"
#include "tests/benchmarks/gpt_sizes.h"

namespace {

using namespace plangrad::benchmarks;
using nlohmann::json;

/// Seconds of a step: the median of `rounds` plans of so many steps each, after one to warm up.
double time_of_step(const Size& size, DType dtype, int steps, int rounds, Ids ids,
                    const DeviceClock& clock) {
  Training training(gpt(size.config), 1);
  training.dtype = dtype;
  SameTokens tokens(size, 1, ids);
  ThreadsWorld world(1);
  Engine engine(training, world.transport(0), clock.device(), {});
  std::vector<double> seconds;
  for (int round = 0, first = 0; round <= rounds; ++round, first += steps) {
    const VerifiedPlan plan =
        verify(make_plan("data", {.steps = steps, .first = first, .clip = true}));
    clock.wait();
    const double start = now();
    engine.run(plan, tokens);
    clock.wait();
    if (round > 0) seconds.push_back((now() - start) / steps);
  }
  return median(seconds);
}

json measure(const Size& size, DType dtype, int steps, int rounds, Ids ids, int product,
             const DeviceClock& clock) {
  const double seconds = time_of_step(size, dtype, steps, rounds, ids, clock);
  const double rate = clock.matmul_rate(dtype, product);  // of a card that is warm by then
  const double tokens = size.batch * size.config.context / seconds;
  const double flops = gpt_flops_per_token(size.config, size.config.context);
  return {{"size", size.name},
          {"model", to_json(size.config)},
          {"batch", size.batch},
          {"dtype", name_of(dtype)},
          {"steps", steps * rounds},
          {"is_gpu", clock.is_gpu()},
          {"seconds_per_step", seconds},
          {"tokens_per_second", tokens},
          {"flops_per_token", flops},
          {"matmul_size", product},
          {"matmul_gflops", rate / 1e9},
          {"model_flops_utilization", tokens * flops / rate},
          {"peak_bytes", clock.device()->meter().peak()}};
}

/// GPT-2 with 124 million weights and its own 50257 tokens: the head rounds them up by itself. And
/// one for a moment on the emulator.
const std::map<std::string, Size> gpts{{"gpt2", {"gpt2", {12, 12, 768, 1024, 50257, 0, true}, 16}},
                                       {"tiny", {"tiny", {1, 2, 32, 16, 65, 0, true}, 2}}};

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Speed of a GPT's training step on one device");
  std::string device = "cuda", name = "gpt2", dtype = "bf16", ids = "uniform", file;
  int batch = 0, steps = 10, rounds = 5, product = 8192, vocabulary = 0;
  bool graphs = false;
  plangrad::examples::Flags flags(app);
  plangrad::examples::add_device_flag(flags, device);
  flags.choice("--size", name, {"gpt2", "tiny"}, "12 layers of width 768, or one of 32");
  flags.choice("--dtype", dtype, {"f32", "tf32", "bf16"}, "of weights and activations");
  flags.whole("--batch", batch, 0, "sequences in a step; 0: as suits the size");
  flags.whole("--vocabulary", vocabulary, 0, "number of tokens; 0: as suits the size");
  flags.choice("--tokens", ids, {"uniform", "zipf"}, "how often ids occur");
  flags.yes("--cuda-graph", graphs, "replay a step's kernels as a graph");
  flags.whole("--steps", steps, 1, "in a round");
  flags.whole("--rounds", rounds, 1, "of which the median counts");
  flags.whole("--matmul", product, 1, "size of the matrix products that are the limit");
  flags.words("--json", file, "FILE", "also writes the results there");
  CLI11_PARSE(app, argc, argv);
  Size size = gpts.at(name);
  if (batch > 0) size.batch = batch;
  if (vocabulary > 0) size.config.vocabulary = vocabulary;
  const DeviceClock clock(device, graphs, dtype == "tf32");
  json r = measure(size, dtype == "bf16" ? DType::bf16 : DType::f32, steps, rounds,
                   ids == "zipf" ? Ids::zipf : Ids::uniform, product, clock);
  r["tokens"] = ids;
  r["cuda_graph"] = graphs;
  fmt::print(
      "{}| GPT | tokens known | sequences | type | tokens/s | ms a step | products of {}, TFLOP/s "
      "| utilisation | peak, GB |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
      "| {}{}{} | {} | {} x {} | {} | {:.0f} | {:.2f} | {:.1f} | {:.1f}% | {:.2f} |\n",
      clock.remark(), product, name, ids == "zipf" ? ", ids by Zipf's law" : "",
      graphs ? ", CUDA graphs" : "", size.config.vocabulary, size.batch, size.config.context, dtype,
      r["tokens_per_second"].get<double>(), 1e3 * r["seconds_per_step"].get<double>(),
      r["matmul_gflops"].get<double>() / 1e3, 100 * r["model_flops_utilization"].get<double>(),
      r["peak_bytes"].get<double>() / 1e9);
  if (!file.empty()) write_json(file, r);
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 1;
}
