// pipeline: the library on one page. A schedule makes a plan, the verifier checks it, four ranks
// train a small network by it, and one rank trains the same network, to compare the losses.
// Not here: flags, files and checkpoints (examples/train_gpt.cpp). Chapter 00.
#include <cstdio>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/version.h"
#include "nn/models/model.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/launch.h"

using namespace plangrad;
using namespace plangrad::parallel;

/// tanh(x) weight^T + bias.                                                    (N,In) -> (N,Out)
struct Dense : Layer {
  Dense(ParameterList& list, const std::string& name, int in, int out)
      : linear(list, name, in, out, Init::normal(std::sqrt(2.0 / in))) {}
  Tensor forward(const Tensor& x, const Pass&) const override { return linear.forward(tanh(x)); }
  Linear linear;
};

/// Eight layers, from a point of the plane to the scores of two classes.
Model perceptron() {
  Model model;
  for (int i = 0; i < 8; ++i) {
    const std::string name = autograd::text("layer", i);
    const int in = i == 0 ? 2 : 32, out = i == 7 ? 2 : 32;
    auto output = [=](const Shape& x) { return Shape{x[0], out}; };
    model.push_back({name, builds<Dense>(name, in, out), /*flops*/ 2.0 * in * out, output});
  }
  return model;
}

/// 128 points a microbatch. The class of a point says whether it lies inside a circle.
struct Points : Batches {
  Shape shape(int) const override { return {128, 2}; }
  Tensor inputs(int micro, const DevicePtr& device) override {
    Tensor x = empty(shape(micro), DType::f32, device);
    x.backend().fill_uniform(RandomKey(1, autograd::text("points ", micro)), -1, 1, x);
    return x;
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    const std::vector<double> x = to_host(inputs(micro, device));
    std::vector<std::int32_t> inside;
    for (int i = 0; i < 256; i += 2) inside.push_back(std::hypot(x[i], x[i + 1]) < 0.7);
    return from_host(inside, {128}, device);
  }
};

int main(int argc, char** argv) {
  if (argc > 1) {
    const std::string word = argv[1];
    if (word == "--version") return std::printf("pipeline of plangrad %s\n", version()), 0;
    const bool asks = word == "--help" || word == "-h";
    std::fputs("pipeline has no flags: it trains on four ranks, and on one\n",
               asks ? stdout : stderr);
    return asks ? 0 : 2;
  }
  // [snippet pipeline]
  const Layout layout{.stages = 4, .microbatches = 8, .steps = 20, .clip = true};
  Training training(perceptron(), layout.stages);  // the network, cut into four stages
  training.learning_rate = {.highest = 0.01, .lowest = 0.001, .warmup = 2, .steps = layout.steps};

  const VerifiedPlan four = verify(make_plan("1f1b", layout));  // throws if a rule is broken
  const VerifiedPlan one = verify(make_plan("data", layout));   // one rank computes all stages

  // Trains on a thread for each rank of the plan. Returns the mean loss of each update.
  auto train = [&](const VerifiedPlan& plan) {
    std::map<int, double> losses;
    run_ranks(plan.plan().ranks(), [&](Transport& transport) {
      set_compute_threads(1);  // ranks share the machine's cores
      Points batches;
      Engine engine(training, transport, cpu_device(), {});
      const RunResult result = engine.run(plan, batches);
      for (const auto& [micro, loss] : result.losses)  // the rank of the last stage has them
        losses[plan.plan().made_by(micro)] += loss / layout.microbatches;
    });
    return losses;
  };
  const std::map<int, double> losses = train(four), expected = train(one);
  // [end snippet]

  std::printf("verified; each rank keeps at most this many microbatches:");
  for (int count : four.facts().peak_microbatches) std::printf(" %d", count);
  std::printf("\nupdate  loss on four ranks  on one rank\n");
  for (const auto& [update, loss] : losses)
    std::printf("%6d  %18.6f  %11.6f\n", update, loss, expected.at(update));
  std::printf(losses == expected ? "all losses have the same bits\n" : "the losses differ\n");
  return losses == expected ? 0 : 1;
}
