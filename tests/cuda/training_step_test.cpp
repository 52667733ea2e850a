// A GPT's training steps on the CUDA backend against f64 on the CPU, with bounds that the CPU's own
// steps in f32 and bf16 keep as well.
// Not here: each kernel (the other backend tests).
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "cuda/backend/cuda_backend.h"
#include "nn/models/gpt.h"
#include "nn/optimizers/optimizer.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/references.h"
#include "tests/sanitized.h"

using namespace plangrad::nn;
using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

namespace {

// Heads of 16 values, which tensor cores take, and more positions than one of their tiles has.
constexpr int images = 1, time = 70, steps = sanitized ? 1 : 3;
const GptConfig config{2, 2, 32, 72, 67, 0.1, true};

Tensor some_tokens(const char* name, const DevicePtr& device) {
  std::vector<std::int32_t> tokens(images * time);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<std::int32_t>(uniform_integer(RandomKey(1, name), i, config.vocabulary));
  return integers(tokens, {images, time}, device);
}

/// Some steps of a run, with dropout and a clipped norm, and what there is to compare.
struct Training {
  Stage stage{gpt(config), 0, config.layers + 2};
  Numbers losses, gradients, weights;  // gradients: those of the first step

  /// In `dtype`, from weights that are rounded to `start`.
  Training(DType dtype, DType start, const DevicePtr& device) {
    const Shape flat{stage.parameters().numel()};
    const Tensor first = empty(flat, start, cpu_device()),
                 on_host = empty(flat, dtype, first.device());
    initialize(stage.parameters(), first, 5);
    first.backend().copy(first, on_host);
    const Tensor own = empty(flat, dtype, device),
                 sums = empty(flat, gradient_dtype(dtype), device);
    device->backend().copy_from_host(on_host.raw(), own);
    stage.bind(own, add_to_flat(sums));
    // With epsilon equal to the learning rate, a step is no larger than its gradient: weights are
    // as far off as gradients are.
    const auto optimizer = make_adamw(stage.parameters(), own, 0.1, 0.9, 0.95, 0.1);
    for (int step = 1; step <= steps; ++step) {
      device->backend().fill(0, sums);
      const Pass pass{.training = true, .seed = 3, .microbatch = step};
      const Tensor loss =
          stage.forward(some_tokens("tokens", device), pass, some_tokens("targets", device));
      losses.push_back(item(loss));
      backward(loss);
      if (step == 1) gradients = to_host(sums);
      const double norm = gradient_norm(stage.parameters(), sums);
      optimizer->step({.learning_rate = 0.1, .clip = clip_scale(norm, 1), .step = step}, own, sums);
    }
    weights = to_host(own);
  }
};

/// The largest difference of a parameter's numbers, as a share of the largest of them.
double worst(const Training& run, const Numbers& got, const Numbers& expected) {
  double worst = 0;
  for (const Parameter& p : run.stage.parameters()) {
    auto part = [&](const Numbers& x) {
      const auto first = x.begin() + p.offset;
      return Numbers(first, first + p.shape.numel());
    };
    const double off = difference(part(got), part(expected));
    worst = off <= worst ? worst : off;  // takes NaN
  }
  return worst;
}

/// In f32, chains of roundings are as long as sums, over 70 positions or 67 logits, there and back.
/// In bf16, a value passes through some 60 tensors on its way there and back, at a rounding of up
/// to 2^-8 each; those are up as often as down, so that about the root of 60 of them remain.
double bound(DType dtype) { return dtype == DType::bf16 ? 8 * 0x1p-8 : 256 * 0x1p-24; }

}  // namespace

TEST_CASE("training: steps on the CUDA backend are those of f64 within bounds") {
  Machine machine;
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Training exact(DType::f64, dtype, cpu_device());
    for (const DevicePtr& device : {strict_device(), cpu_device()}) {
      INFO(dtype << " on " << device->backend().name());
      const Training got(dtype, dtype, device);
      CHECK(difference(got.losses, exact.losses) <= bound(dtype));
      CHECK(worst(exact, got.gradients, exact.gradients) <= bound(dtype));
      CHECK(worst(exact, got.weights, exact.weights) <= bound(dtype));
    }
    if (steps > 1) CHECK(exact.losses.back() < exact.losses.front() - 0.1);
  }
}

TEST_CASE("training: the same bits in every order of threads and of queued work") {
  for (DType dtype : {DType::f32, DType::bf16}) {
    std::vector<Training> runs;
    for (const Settings& settings :
         {Settings{.order = Order::forward, .schedule = QueueSchedule::eager},
          Settings{.order = Order::reverse, .schedule = QueueSchedule::lazy},
          Settings{.order = Order::random, .schedule = QueueSchedule::random, .seed = 7}}) {
      Machine machine(settings);
      runs.emplace_back(dtype, dtype, cuda_device());
    }
    for (const Training& run : runs) {
      CHECK(run.losses == runs[0].losses);
      CHECK((run.gradients == runs[0].gradients && run.weights == runs[0].weights));
    }
  }
}

// A graph has the kernels of the norm, and another one the optimizer's.
TEST_CASE("training: an update has as many launches for many parameters as for few") {
  Machine machine;
  const DevicePtr device = cuda_device(0, {.graphs = true});
  const auto& graphs = *backend_of(device).graphs();
  std::vector<std::size_t> of_norm, of_step;
  for (int parameters : {2, 60}) {
    ParameterList list;
    for (int i = 0; i < parameters; ++i)
      list.add(text("p", i), i % 2 ? Shape{3} : Shape{2, 2}, Init::constant(0));  // decay in turn
    const Tensor weights = zeros({list.numel()}, DType::f32, device);
    const Tensor gradients = full({list.numel()}, 1, DType::f32, device);
    const auto optimizer = make_adamw(list, weights);
    device->backend().as_one_launch([&] {
      const double norm = gradient_norm(list, gradients);
      of_norm.push_back(graphs.nodes());
      optimizer->step({.clip = clip_scale(norm, 1)}, weights, gradients);
    });
    of_step.push_back(graphs.nodes());
  }
  CHECK(graphs.begun() == 4);
  CHECK(of_norm[0] == of_norm[1]);
  CHECK(of_step[0] == of_step[1]);
}
