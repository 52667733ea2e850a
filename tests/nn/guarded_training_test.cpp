// A whole training step on a device whose memory the host can't touch: the CPU's bits.
// Not here: whether the step is right (tests/nn/gpt_reference_test.cpp).
#include <cmath>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "nn/gpt.h"
#include "nn/optimizer.h"
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/numbers.h"

using namespace paragrad::nn;
using namespace paragrad::tests;

namespace {

struct Outcome {
  Numbers losses, norms, weights;
  bool operator==(const Outcome&) const = default;
};

/// Three steps of a GPT with dropout: forward, loss, backward, clipping, AdamW.
Outcome train(const DevicePtr& device, DType dtype, bool recomputes) {
  GptConfig config{2, 2, 16, 8, 19, 0.1, true};
  Stage stage(gpt(config), 0, config.layers + 2);
  std::int64_t n = stage.parameters().numel();
  Tensor weights = zeros({n}, dtype, device);
  Tensor gradients = zeros({n}, gradient_dtype(dtype), device);
  stage.initialize(weights, 42);
  stage.bind(weights, add_to_flat(gradients));
  auto optimizer = make_adamw(stage.parameters(), weights);
  std::vector<std::int32_t> ids(3 * 8), next(3 * 8);
  for (int i = 0; i < 24; ++i) ids[i] = i * 7 % 19, next[i] = i * 5 % 19;
  Tensor tokens = integers(ids, {3, 8}, device), targets = integers(next, {3, 8}, device);

  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    Pass pass{true, 42, step};
    auto forward = [&](const Tensor& x) { return stage.forward(x, pass); };
    device->backend().fill(0, gradients);
    Tensor loss = cross_entropy(recomputes ? recompute(forward, tokens) : forward(tokens), targets);
    backward(loss);
    double norm = gradient_norm(stage.parameters(), gradients);
    optimizer->step({1e-2, 1, clip_scale(norm, 0.5), step + 1}, weights, gradients);
    outcome.losses.push_back(item(loss));
    outcome.norms.push_back(norm);
  }
  outcome.weights = to_host(weights);
  return outcome;
}

}  // namespace

TEST_CASE("guarded device: training steps of a GPT give the CPU's bits", "[guarded]") {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    Outcome cpu = train(cpu_device(), dtype, false);
    INFO(dtype);
    for (double loss : cpu.losses) CHECK(std::isfinite(loss));
    CHECK(cpu.losses.back() < cpu.losses.front());
    bool same = train(guarded_device(), dtype, false) == cpu;
    CHECK(same);
    bool same_again = train(guarded_device(), dtype, true) == cpu;
    CHECK(same_again);
  }
}
