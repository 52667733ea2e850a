// Products of a GPT whose vocabulary is odd: on a GPU, all have operands that load 16 bytes at a
// time.
// Not here: how the emulator counts (cublas_lt_test.cpp), values (training_step_test.cpp).
#include "autograd/backend.h"
#include "autograd/ops.h"
#include "cuda/emulator/emulator.h"
#include "nn/models/gpt.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"

using namespace plangrad::nn;
using namespace plangrad::tests;

namespace {

const GptConfig config{1, 2, 32, 8, 67, 0, true};

/// The misaligned products of a forward and a backward, in which the head computes the loss itself,
/// or the logits.
std::int64_t misaligned(DType dtype, bool loss_of_head) {
  Machine machine;
  const DevicePtr device = strict_device();
  Stage stage(gpt(config), 0, config.layers + 2);
  const Tensor weights = zeros({stage.parameters().numel()}, dtype, device);
  stage.bind(weights, add_to_flat(zeros(weights.shape(), gradient_dtype(dtype), device)));
  const Tensor tokens = integers({66, 0, 1, 2, 3, 4, 5, 66}, {1, 8}, device);
  backward(loss_of_head ? stage.forward(tokens, {.training = true}, tokens)
                        : cross_entropy(stage.forward(tokens, {.training = true}), tokens));
  backend_of(device).synchronize();
  return plangrad::cuda::emulator::misaligned_products();
}

}  // namespace

TEST_CASE("alignment: a GPT with an odd vocabulary trains without a misaligned product") {
  for (DType dtype : {DType::f32, DType::bf16}) {
    CHECK(misaligned(dtype, true) == 0);
    CHECK(misaligned(dtype, false) == 3);  // the three products of odd logits
  }
}
