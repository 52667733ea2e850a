// What a backward of a plan with drift reads on the engine: the weights that it names, all of them.
// Not here: what such plans learn (schedules/drift_rule_test).

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// A stage of two blocks between its forward and its backward.
struct UnderWay {
  UnderWay(DType dtype, bool recompute) : training(gpt(small_gpt(false)), 3), device(cpu_device()) {
    set_compute_threads(1);
    training.dtype = dtype;
    training.recompute_layers = recompute;
    runner.emplace(training, 1, device);
    const ParameterList& list = runner->parameters();
    weights = zeros({list.numel()}, dtype, device);
    initialize(list, weights, 1);
    x = random("x"), dy = random("dy");
    runner->forward(0,
                    {.x = x, .weights = weights, .sink = [](const Parameter&, const Tensor&) {}});
  }

  Tensor random(const char* name) const {
    Tensor values = zeros({2, 8, 16}, training.dtype, device);
    values.backend().fill_uniform(RandomKey(1, name), -1, 1, values);
    return values;
  }

  /// Makes parameters zero whose names contain one of these words.
  void clear(const std::vector<const char*>& words) const {
    for (const Parameter& parameter : runner->parameters())
      for (const char* word : words)
        if (parameter.name.find(word) != std::string::npos) {
          const Tensor values = weights.window(parameter.offset, parameter.shape);
          values.backend().fill(0, values);
        }
  }

  Tensor backward() { return runner->backward(0, dy, Value::none, weights); }

  Training training;
  DevicePtr device;
  std::optional<StageRunner> runner;
  Tensor weights, x, dy;
};

}  // namespace

TEST_CASE("a backward reads each product's weights as they are now", "[drift]") {
  // Without one of its products, each branch of a block adds nothing to the gradient that passes.
  for (DType dtype : {DType::f32, DType::bf16})
    for (bool recompute : {false, true})
      for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
               {"ln_"}, {"attn.c_attn.weight", "c_fc.weight"}, {"c_proj.weight"}}) {
        INFO(dtype << (recompute ? " recomputed " : " ") << words[0]);
        UnderWay changed(dtype, recompute), same(dtype, recompute);
        changed.clear(words);
        CHECK(to_host(changed.backward()) == to_host(changed.dy));
        CHECK(to_host(same.backward()) != to_host(same.dy));
      }
}

TEST_CASE("a backward's weights are where its forward read them", "[drift]") {
  UnderWay moved(DType::f32, false);
  moved.weights = zeros(moved.weights.shape(), DType::f32, moved.device);
  CHECK_THROWS_WITH(moved.backward(), Contains("are not where its forward read"));
}
