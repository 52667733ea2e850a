// How long the parts of a split backward take beside a whole one: a stage that is one transformer
// block, its forward (F), whole backward (B), input part (I) and weight part (W), in turns.
// Not here: schedules with split backwards, and their bubbles. Chapter 06.
#include <cstdio>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/engine/stage_runner.h"
#include "tests/benchmarks/gpt_sizes.h"

namespace {

using namespace plangrad::benchmarks;

/// Median seconds of a computation of one microbatch.
struct Parts {
  double forward, backward, input, weight;
};

Parts measure(const Size& size, DType dtype, int rounds) {
  GptConfig config = size.config;
  config.layers = 1;
  Training training(gpt(config), 3);  // embedding, block, head
  training.dtype = dtype;
  const DevicePtr device = cpu_device();
  StageRunner runner(training, 1, device);
  const Tensor weights = empty({runner.parameters().numel()}, dtype, device);
  initialize(runner.parameters(), weights, training.seed);
  const Tensor sum = zeros(weights.shape(), gradient_dtype(dtype), device);
  Tensor x = empty({size.batch, config.context, config.width}, dtype, device), dy = empty_like(x);
  x.backend().fill_normal(RandomKey(1, "x"), 0, 1, x);
  x.backend().fill_normal(RandomKey(1, "dy"), 0, 1, dy);

  using Part = Value;
  std::vector<double> forward, backward, input, weight;
  auto time = [](std::vector<double>& seconds, auto work) {
    const double start = now();
    work();
    seconds.push_back(now() - start);
  };
  for (int round = 0; round < rounds + 3; ++round) {
    const StageRunner::Inputs inputs{x, {}, weights, {}, true, add_to_flat(sum)};
    time(forward, [&] { runner.forward(0, inputs); });
    time(backward, [&] { runner.backward(0, dy, Part::none, weights); });
    runner.forward(0, inputs);
    time(input, [&] { runner.backward(0, dy, Part::input_part, weights); });
    time(weight, [&] { runner.backward(0, {}, Part::weight_part, weights); });
    if (round < 3)  // to warm up
      for (auto* seconds : {&forward, &backward, &input, &weight}) seconds->clear();
  }
  return {median(forward), median(backward), median(input), median(weight)};
}

}  // namespace

int main() {
  std::printf(
      "One block, a step's batch at once, milliseconds (median of 30).\n\n"
      "| size | dtype | F | B | I | W | (I + W) / B | W / B |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Size& size : sizes)
    for (DType dtype : {DType::f32, DType::bf16}) {
      const Parts parts = measure(size, dtype, 30);
      std::printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", size.name.c_str(),
                  name_of(dtype), 1e3 * parts.forward, 1e3 * parts.backward, 1e3 * parts.input,
                  1e3 * parts.weight, (parts.input + parts.weight) / parts.backward,
                  parts.weight / parts.backward);
      std::fflush(stdout);
    }
}
