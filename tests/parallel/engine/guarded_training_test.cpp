// Whole training steps on a device whose memory the host can't touch: the CPU's bits.
// Not here: whether a step is right (tests/nn/gpt_reference_test.cpp), and messages.

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// Three steps of a GPT with dropout: forward, loss, backward, clipping, AdamW.
Outcome train(const DevicePtr& device, DType dtype, const std::string& schedule, bool recompute) {
  GptConfig config = small_gpt(true, 0.1);
  Training training(gpt(config), 1);
  training.dtype = dtype;
  training.learning_rate = {1e-2, 1e-2, 0, 3};
  training.clip = 0.5;
  training.recompute_layers = recompute;
  SameBatch batch(config, 2);
  Layout layout{1, 1, 2, 3, 0, recompute, true, false};
  return run_on_one_rank(training, plans_of(schedule, layout), batch, device);
}

}  // namespace

TEST_CASE("guarded device: training steps of a GPT give the CPU's bits", "[guarded]") {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    Outcome cpu = train(cpu_device(), dtype, "data", false);
    INFO(dtype);
    for (auto [micro, loss] : cpu.losses) CHECK(std::isfinite(loss));
    CHECK(cpu.losses[4] + cpu.losses[5] < cpu.losses[0] + cpu.losses[1]);
    for (bool recompute : {false, true}) {
      INFO((recompute ? "recompute" : "plain"));
      // In the schedule gpipe both microbatches' activations are dropped for a while.
      Outcome guarded = train(guarded_device(), dtype, recompute ? "gpipe" : "data", recompute);
      CHECK(guarded.losses == cpu.losses);
      CHECK(guarded.norms == cpu.norms);
      bool same = guarded.weights == cpu.weights;
      CHECK(same);
    }
  }
}
