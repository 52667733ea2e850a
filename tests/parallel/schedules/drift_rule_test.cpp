// What plans with drift learn: the engine against the update rule, written out stage by stage with
// every version kept, no plan and no messages. Equal bit for bit.
// Not here: the rules of schedules without drift (update_rules_test).

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "nn/models/model.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

/// The version of a stage that a microbatch reads; the microbatch is counted in its replica.
using VersionRead = std::function<int(int stage, int index)>;

Tensor copied(const Tensor& x) {
  Tensor copy = empty_like(x);
  x.backend().copy(x, copy);
  return copy;
}

/// Stages with all versions that they have had.
class KeptVersions {
 public:
  KeptVersions(const Training& training, const Layout& layout, Batches& batches)
      : training_(training), layout_(layout), batches_(batches) {
    set_compute_threads(1);
    for (int s = 0; s < training.stages(); ++s) {
      stages_.emplace_back(training.model, training.cuts[s], training.cuts[s + 1]);
      const ParameterList& list = stages_[s].parameters();
      theta_.push_back({zeros({list.numel()}, training.dtype, device_)});
      initialize(list, theta_[s][0], training.seed);
      optimizers_.push_back(training.optimizer(list, theta_[s][0]));
    }
  }

  // [snippet drift_rule]
  /// theta(t+1) = theta(t) - lr * sum over the microbatches k of update t of
  ///              grad f_k, stage s of its forward at theta(fwd(s, k)), of its backward at
  ///              theta(bwd(s, k))
  void update(int t, const VersionRead& fwd, const VersionRead& bwd) {
    std::vector<Tensor> sums = new_sums();
    for (int replica = 0; replica < layout_.width; ++replica) {
      const std::vector<Tensor> own = new_sums();
      for (int micro : layout_.micros(replica, t)) {
        const int index = t * layout_.microbatches + micro % layout_.microbatches;
        forward(micro, own, [&](int s) { return theta_[s].at(fwd(s, index)); });
        backward([&](int s) { return theta_[s].at(bwd(s, index)); });
      }
      for (std::size_t s = 0; s < sums.size(); ++s) own[s].backend().accumulate(own[s], sums[s]);
    }
    for (std::size_t s = 0; s < sums.size(); ++s) {
      theta_[s].push_back(copied(theta_[s].back()));
      optimizers_[s]->step({training_.learning_rate.at(t), 1.0 / layout_.per_step(), 1, t + 1},
                           theta_[s].back(), sums[s]);
    }
  }
  // [end snippet]

  std::vector<double> newest(int stage) const { return to_host(theta_[stage].back()); }

 private:
  using Weights = std::function<Tensor(int stage)>;

  std::vector<Tensor> new_sums() {
    std::vector<Tensor> sums;
    for (const auto& versions : theta_)
      sums.push_back(zeros(versions[0].shape(), versions[0].dtype(), device_));
    return sums;
  }

  void forward(int micro, const std::vector<Tensor>& sums, const Weights& weights) {
    pass_ = {.training = true, .seed = training_.seed, .microbatch = micro};
    x_ = {batches_.inputs(micro, device_)};
    read_.clear(), y_.clear();
    targets_ = batches_.targets(micro, device_);
    sums_ = &sums;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      read_.push_back(copied(weights(static_cast<int>(s))));
      y_.push_back(compute(s));
      x_.push_back(variable(y_[s].detach()));
    }
  }

  Tensor compute(std::size_t s) {
    stages_[s].bind(read_[s], add_to_flat((*sums_)[s]));
    const Tensor y = stages_[s].forward(x_[s], pass_);
    return s + 1 == stages_.size() ? cross_entropy(y, targets_) : y;
  }

  /// A graph reads the weights of its forward where they were: others are put in their place. A
  /// stage that dropped its activations computes them again, on these.
  void backward(const Weights& weights) {
    Tensor dy;
    for (std::size_t s = stages_.size(); s-- > 0;) {
      const Tensor newer = weights(static_cast<int>(s));
      newer.backend().copy(newer, read_[s]);
      if (layout_.recompute) y_[s] = compute(s);
      plangrad::autograd::backward(y_[s], dy);
      if (s > 0) dy = gradient(x_[s]).detach();
    }
  }

  const Training& training_;
  const Layout& layout_;
  Batches& batches_;
  DevicePtr device_ = cpu_device();
  std::deque<Stage> stages_;
  std::vector<std::vector<Tensor>> theta_;  // by stage and version
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  // Of one microbatch, by stage: inputs, outputs, weights.
  std::vector<Tensor> x_, y_, read_;
  Tensor targets_;
  Pass pass_;
  const std::vector<Tensor>* sums_ = nullptr;
};

/// The versions that paci's microbatches read.
VersionRead forwards_of(const Layout& layout) {
  return [layout](int s, int index) {
    return std::max(index - (layout.stages - 1 - s), 0) / layout.microbatches;
  };
}
VersionRead backwards_of(const Layout& layout) {
  return [m = layout.microbatches](int, int index) { return index / m; };
}

std::vector<std::vector<double>> learn(const Training& training, const Layout& layout,
                                       Batches& batches, const VersionRead& fwd,
                                       const VersionRead& bwd) {
  KeptVersions model(training, layout, batches);
  for (int t = 0; t < layout.steps; ++t) model.update(t, fwd, bwd);
  std::vector<std::vector<double>> newest;
  for (int s = 0; s < layout.stages; ++s) newest.push_back(model.newest(s));
  return newest;
}

/// tanh(x) weight^T + bias: its backward reads the weight for dx, and for nothing else.
struct Dense : Layer {
  Dense(ParameterList& list, const std::string& name, int width)
      : linear(list, name, width, width, Init::normal(1)) {}
  Tensor forward(const Tensor& x, const Pass&) const override { return linear.forward(tanh(x)); }
  Linear linear;
};

Model dense(int layers) {
  Model model;
  for (int i = 0; i < layers; ++i) {
    const std::string name = text("layer", i);
    model.push_back({name, builds<Dense>(name, 4), 1, [](const Shape& x) { return x; }});
  }
  return model;
}

struct Points : Batches {
  Shape shape(int) const override { return {3, 4}; }
  Tensor inputs(int micro, const DevicePtr& device) override {
    Tensor x = empty(shape(micro), DType::f32, device);
    x.backend().fill_uniform(RandomKey(1, text("points ", micro)), -1, 1, x);
    return x;
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    return from_host(std::vector<std::int32_t>{micro % 4, 1, 2}, {3}, device);
  }
};

}  // namespace

TEST_CASE("drift: forward at the versions that were there, backward at the newest", "[rules]") {
  struct Run {
    Layout layout;
    bool adamw;
  };
  std::vector<Run> runs;
  for (int stages : {2, 3, 4})
    for (int microbatches : {1, 2, 3, 4})
      for (int width : {1, 2}) {
        const auto i = static_cast<int>(runs.size());
        const Layout layout{.stages = stages,
                            .width = width,
                            .microbatches = microbatches,
                            .steps = microbatches == 1 ? 6 : 4,
                            .recompute = i % 3 == 0};
        runs.push_back({layout, i % 4 < 2});
      }
  for (const auto& [layout, adamw] : fewer(runs)) {
    INFO("D" << layout.stages << " m" << layout.microbatches << " W" << layout.width
             << (layout.recompute ? " recomputed" : "") << (adamw ? " AdamW" : " SGD"));
    const Training training =
        training_with_warmup(gpt(small_gpt(false, 0.1)), layout.stages, adamw);
    SmallBatches batches(small_gpt());
    const Outcome outcome = run_by_engine(training, plans_of("paci", layout), batches);
    const auto expected =
        learn(training, layout, batches, forwards_of(layout), backwards_of(layout));
    CHECK(outcome.weights.size() == static_cast<std::size_t>(layout.stages * layout.width));
    for (const auto& [name, weights] : outcome.weights) CHECK(weights == expected[name.second]);
  }
}

TEST_CASE("drift held to n: stages run less far ahead, and read newer versions", "[rules]") {
  const Layout layout{.stages = 4, .microbatches = 1, .steps = 6, .drift = 2};
  const Training training = training_with_warmup(gpt(small_gpt(false, 0.1)), 4, true);
  SmallBatches batches(small_gpt());
  const Outcome outcome = run_by_engine(training, plans_of("paci", layout), batches);
  auto fwd = [](int s, int index) { return std::max(index - std::array{2, 2, 1, 0}[s], 0); };
  const auto expected = learn(training, layout, batches, fwd, backwards_of(layout));
  for (const auto& [name, weights] : outcome.weights) CHECK(weights == expected[name.second]);
  CHECK(expected != learn(training, layout, batches, forwards_of(layout), backwards_of(layout)));
}

TEST_CASE("drift changes products with weights inside backwards, and nothing else", "[rules]") {
  auto changes = [](int stages, int layers, bool drifts) {
    const Layout layout{.stages = stages, .microbatches = 1, .steps = 6};
    Training training(dense(layers), stages);
    training.clip = 0;
    training.learning_rate = {0.1, 0.1, 0, 6};
    Points batches;
    const VersionRead fwd = forwards_of(layout);
    const auto same = learn(training, layout, batches, fwd, fwd);
    return learn(training, layout, batches, fwd, drifts ? backwards_of(layout) : fwd) != same;
  };
  CHECK_FALSE(changes(2, 2, true));  // stage 0 has one product, and the input needs no gradient
  CHECK(changes(2, 4, true));        // two products each
  CHECK(changes(3, 3, true));        // stage 1's input needs a gradient
  CHECK_FALSE(changes(3, 3, false));
}
