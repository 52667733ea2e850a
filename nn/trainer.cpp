// One step: gradients of all microbatches into a flat buffer, their norm, the optimizer. A loss
// that is not finite stops the run before the weights change.
// Chapter 02.
#include "nn/trainer.h"

#include <cmath>

#include "autograd/ops.h"

namespace paragrad::nn {

Trainer::Trainer(const Model& model, const TrainerSettings& settings, const DevicePtr& device)
    : settings_(settings), device_(device), stage_(model, 0, static_cast<int>(model.size())) {
  PG_CHECK(settings.microbatches > 0, "microbatches must be positive, got ", settings.microbatches);
  std::int64_t n = parameters().numel();
  auto flat = [&](Category category, DType dtype) {
    CategoryScope scope(*device, category);
    return zeros({n}, dtype, device);
  };
  weights_ = flat(Category::weights, settings.dtype);
  gradients_ = flat(Category::gradients, gradient_dtype(settings.dtype));
  stage_.initialize(weights_, settings.seed);
  optimizer_ = make_adamw(parameters(), weights_, settings.weight_decay, 0.9, settings.beta2);
}

// [snippet step]
StepResult Trainer::step(const Tensor& inputs, const Tensor& targets) {
  device_->backend().fill(0, gradients_);
  double loss = accumulate(inputs, targets);

  double average = 1.0 / settings_.microbatches;
  double norm = average * gradient_norm(parameters(), gradients_);
  double rate = settings_.learning_rate.at(steps_);
  PG_CHECK(std::isfinite(loss) && std::isfinite(norm), "step ", steps_ + 1, ": the loss is ", loss,
           " and the gradient's norm ", norm, "; the weights are as the step before left them. ",
           "Use a lower --learning-rate, a longer --warmup or a --clip of 1");
  optimizer_->step({rate, average, clip_scale(norm, settings_.clip), steps_ + 1}, weights_,
                   gradients_);
  ++steps_;
  return {loss, rate, norm};
}

/// Adds the gradients of all microbatches to gradients_, in order. Returns the mean loss.
double Trainer::accumulate(const Tensor& inputs, const Tensor& targets) {
  int parts = settings_.microbatches;
  std::int64_t rows = inputs.size(0) / parts;
  PG_CHECK(inputs.size(0) == rows * parts, "a batch of ", inputs.size(0), " does not divide into ",
           parts, " microbatches");
  stage_.bind(weights_, add_to_flat(gradients_));
  double loss = 0;
  for (int i = 0; i < parts; ++i) {
    Pass pass{true, settings_.seed, steps_ * parts + i, settings_.recompute};
    Tensor x = slice(inputs, 0, i * rows, (i + 1) * rows);
    Tensor t = slice(targets, 0, i * rows, (i + 1) * rows);
    Tensor l = cross_entropy(stage_.forward(x, pass), t);
    loss += item(l) / parts;
    backward(l);
  }
  return loss;
}
// [end snippet]

double Trainer::evaluate(const Tensor& inputs, const Tensor& targets) {
  NoGrad no_grad(*device_);
  return item(cross_entropy(predict(inputs), targets));
}

Tensor Trainer::predict(const Tensor& inputs) {
  NoGrad no_grad(*device_);
  stage_.bind(weights_);
  return stage_.forward(inputs, {});
}

}  // namespace paragrad::nn
