// A stage's input is a leaf of the graph, so that backward leaves its gradient there. Predictions
// are compared on the host. Not here: which version of the weights is read. Chapter 06.
#include "parallel/engine/stage_runner.h"

namespace plangrad::parallel {

/// The share of rows whose largest logit is the target's.
/// shapes: logits (...,C), targets (...)
static double accuracy_of(const Tensor& logits, const Tensor& targets) {
  const std::vector<double> scores = to_host(logits), labels = to_host(targets);
  const auto classes = static_cast<std::ptrdiff_t>(scores.size() / labels.size());
  double right = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    auto first = scores.begin() + static_cast<std::ptrdiff_t>(row) * classes;
    right += static_cast<double>(std::max_element(first, first + classes) - first) == labels[row];
  }
  return right / static_cast<double>(labels.size());
}

StageRunner::StageRunner(const Training& training, int stage, const DevicePtr& device)
    : training_(training),
      device_(device),
      first_(stage == 0),
      last_(stage == training.stages() - 1),
      stage_(training.model, training.cuts.at(stage), training.cuts.at(stage + 1),
             training.shared.parameters) {}

Tensor StageRunner::forward(int micro, const Inputs& inputs) {
  Activations& kept = kept_[micro];
  if (inputs.x.defined()) kept.x = first_ || !inputs.training ? inputs.x : variable(inputs.x);
  PG_CHECK(kept.x.defined(), "microbatch ", micro, " has no input");
  kept.inputs = inputs;
  kept.inputs.x = kept.inputs.targets = {};  // the graph keeps what it needs of them
  bind(micro);
  Pass pass{inputs.training, training_.seed, micro, training_.recompute_layers};
  std::optional<NoGrad> no_grad;
  if (!inputs.training) no_grad.emplace(*device_);
  const bool counts = last_ && training_.count_accuracy && !inputs.training;
  kept.y = stage_.forward(kept.x, pass, last_ && !counts ? inputs.targets : Tensor());
  if (counts) kept.accuracy = accuracy_of(kept.y, inputs.targets);
  if (counts) kept.y = cross_entropy(kept.y, inputs.targets);
  stage_.unbind();  // or it would keep a version alive until the next forward
  return kept.y.detach();
}

void StageRunner::bind(int micro) {
  const Inputs& inputs = kept_.at(micro).inputs;
  stage_.bind(inputs.weights, inputs.training ? inputs.sink : nullptr, inputs.shared);
}

void StageRunner::drop(int micro) {
  Activations& kept = kept_.at(micro);
  kept.y = {};
  if (!kept.inputs.training) kept_.erase(micro);
}

Tensor StageRunner::backward(int micro, const Tensor& dy, Value part, const Tensor& weights,
                             const Tensor& shared) {
  Activations& kept = kept_.at(micro);
  for (const auto& [read, bound] :
       {std::pair(&weights, &kept.inputs.weights), {&shared, &kept.inputs.shared}})
    PG_CHECK(read->storage() == bound->storage(), "microbatch ", micro, ": the weights that its ",
             "backward reads are not where its forward read, to which the graph points");
  Tensor dx;
  if (part != Value::weight_part) {
    if (training_.recompute_layers) bind(micro);  // for layers that compute again
    autograd::backward(kept.y, dy, part == Value::input_part ? &kept.later : nullptr);
    stage_.unbind();
    if (!first_) dx = gradient(kept.x).detach();
    if (!first_) kept.x.node()->gradient = {};  // the weight part may keep the node
    kept.x = kept.y = {};
  }
  if (part == Value::input_part) return dx;
  kept.later.run();
  kept_.erase(micro);
  return dx;
}

}  // namespace plangrad::parallel
