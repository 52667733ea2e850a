// Where a training step's time goes: a GPT's step by kernel, as --profile tells of any run, beside
// the limits of the machine, which are measured in the same run.
// Not here: the step's speed by itself (tests/benchmarks/train_step.cpp).
// Chapter 03; Williams, Waterman and Patterson 2009, "Roofline".
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "examples/profile/profile.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/threads_transport.h"
#include "tests/benchmarks/gpt_sizes.h"

namespace {

using namespace plangrad::benchmarks;
using namespace plangrad::examples;

/// A training run of one rank.
struct Run {
  const Training& training;
  DevicePtr device;
  SameTokens tokens;
  ThreadsWorld world{1};
  Engine engine{training, world.transport(0), device, {}};
  int done = 0;

  /// Trains some steps, and returns the seconds of each.
  double train(int steps) {
    const VerifiedPlan plan = verify(make_plan(
        "data", {.steps = steps, .first = std::exchange(done, done + steps), .clip = true}));
    engine.prepare(plan.plan());
    KernelProfile* profile = profile_of(*device);
    if (profile) profile->begin();
    const double begun = now();
    engine.run(plan, tokens);
    const double seconds = now() - begun;
    if (profile) profile->end(steps);
    return seconds / steps;
  }
};

void measure(const Size& size, DType dtype, int rounds) {
  constexpr int steps = 4;
  Training training(gpt(size.config), 1);
  training.dtype = dtype;
  Run plain{training, cpu_device(), {size, 1}};
  Run profiled{training, profiled_device(cpu_device()), {size, 1}};
  std::vector<double> without, with;
  plain.train(steps);
  profiled.train(steps);  // the profile leaves these out
  for (int round = 0; round < rounds; ++round) {
    without.push_back(plain.train(steps));
    with.push_back(profiled.train(steps));
  }
  fmt::print("The {} GPT in {}. {}\n", size.name, name_of(dtype),
             profile_table({profile_found(*profiled.device)}));
  fmt::print(
      "In turns with runs that are not profiled: {:.1f} ms an update with a profile, "
      "{:.1f} ms without (medians of {} runs of {} updates).\n",
      1e3 * median(with), 1e3 * median(without), rounds, steps);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Time of each kernel in a GPT's training step, beside the machine's limits");
  std::string size_name = "larger", dtype_name = "f32";
  int rounds = 5;
  app.add_option("--size", size_name, "small or larger")->check(CLI::IsMember({"small", "larger"}));
  app.add_option("--dtype", dtype_name, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--rounds", rounds, "runs of four updates")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  for (const Size& size : sizes)
    if (size.name == size_name)
      measure(size, dtype_name == "f32" ? DType::f32 : DType::bf16, rounds);
}
