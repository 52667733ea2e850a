// Training on emulated devices, by threads, processes and NCCL: the CPU's losses within a bound,
// the same bits whatever carries messages, and checkpoints that move between devices.
// Not here: kernels and transports (tests/cuda). Chapter 04.
#include <cmath>

#include "tests/examples/runs.h"

#if EMULATOR_BUILT

using namespace paragrad::tests;

namespace {

const Words emulator{"--device", "emulator"}, nccl{"--transport", "nccl"};
const Words layout{"--layers", "2", "--batch",         "12", "--ranks",    "4",
                   "--stages", "2", "--data-parallel", "2",  "--schedule", "2bw"};

/// A loss goes through about 300 roundings one after the other, its gradient through twice as many,
/// and six updates pass on what they have gathered. Of n roundings, which go either way, the sum
/// grows as sqrt(n) (Higham and Mary 2019). Where rounding changes a gradient by its own size, and
/// with it AdamW's update, the loss hardly depends on that weight.
double rounding(double unit) { return std::sqrt(6 * 900) * unit; }
const double f32_rounding = rounding(std::ldexp(1, -24)),
             bf16_rounding = rounding(std::ldexp(1, -9));

/// Each loss of two runs, in updates and validations.
void check_near(const Runs& runs, const std::string& one, const std::string& two, double bound) {
  const auto a = losses_of(runs.path(one)), b = losses_of(runs.path(two));
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    for (const char* name : {"loss", "validation_loss"})
      if (a[i].contains(name)) {
        CAPTURE(name, a[i].at(name), b[i].at(name));
        CHECK(std::abs(a[i].at(name).get<double>() / b[i].at(name).get<double>() - 1) < bound);
      }
}

}  // namespace

TEST_CASE("emulated devices train as the CPU does, over NCCL and staged") {
  const Runs runs{layout};
  runs.train("cpu");
  runs.train("nccl", emulator + nccl);
  runs.train("staged", emulator);
  runs.check_same("nccl", "staged");
  check_near(runs, "cpu", "nccl", f32_rounding);
  CHECK(summary_of(runs.path("nccl"))["peak_bytes"].size() == 4);
}

TEST_CASE("emulated devices shard, encode and compress") {
  const Runs runs{layout};
  // A value that rounds to another of the quantizer's levels changes one update of one weight.
  const double another_level = 2 * 1e-3;
  const std::vector<std::pair<Words, double>> cases{
      {{"--zero", "1"}, f32_rounding},
      {{"--codec", "quantize:4"}, f32_rounding + another_level},
      {{"--prune", "0.5", "--samo"}, f32_rounding},
      {{"--dtype", "bf16"}, bf16_rounding}};
  for (const auto& [flags, bound] : cases) {
    CAPTURE(flags);
    runs.train("cpu", flags);
    runs.train("nccl", flags + emulator + nccl);
    check_near(runs, "cpu", "nccl", bound);
    std::filesystem::remove_all(runs.path("cpu"));
    std::filesystem::remove_all(runs.path("nccl"));
  }
}

TEST_CASE("checkpoints move between the CPU and emulated devices") {
  const Runs runs{layout};
  const Words half{"--stop-after", "3"}, cpu{"--device", "cpu", "--transport", "threads"};
  runs.train("cpu");
  runs.train("there", half);
  runs.resume("there", emulator + nccl);
  runs.train("back", half + emulator + nccl);
  runs.resume("back", cpu);
  for (const char* moved : {"there", "back"}) check_near(runs, "cpu", moved, f32_rounding);

  const Words sample{"sample_gpt", "--from", runs.path("there"), "--temperature", "0"};
  CHECK(run(sample + emulator).output == run(sample).output);
}

TEST_CASE("NCCL needs devices, and the emulator's one process") {
  const Runs runs{layout};
  runs.check_refused(nccl, "--transport nccl: NCCL moves the memory of GPUs; use --device cuda");
  runs.check_refused({"--device", "emulator", "--transport", "nccl", "--ranks", "65", "--stages",
                      "1", "--data-parallel", "65", "--batch", "65", "--schedule", "data"},
                     "65 ranks need a device each, and there are at most 64");
}

#endif
