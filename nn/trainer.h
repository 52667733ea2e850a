// Trainer: a whole model trained on one rank, a step at a time.
// Not here: files, flags and data; a program brings them.
// Chapter 02.
#pragma once

#include "nn/model.h"
#include "nn/optimizer.h"

namespace paragrad::nn {

struct TrainerSettings {
  DType dtype = DType::f32;  ///< of weights and activations
  std::uint64_t seed = 1337;
  LearningRate learning_rate;
  double weight_decay = 0.1, beta2 = 0.95;  ///< of AdamW
  double clip = 1;                          ///< largest norm of the gradient; 0: any
  int microbatches = 1;    ///< parts that a batch is cut into; their gradients are added up
  bool recompute = false;  ///< trade time for activations
};

struct StepResult {
  double loss, learning_rate, gradient_norm;
};

class Trainer {
 public:
  Trainer(const Model& model, const TrainerSettings& settings, const DevicePtr& device);

  /// One update on a batch; the loss is softmax cross-entropy.
  /// shapes: inputs (B,...), targets (B,...) of i32
  /// throws: Error, before any weight has changed, if the loss or the gradient is not finite, or
  ///         the microbatches do not divide B
  StepResult step(const Tensor& inputs, const Tensor& targets);

  /// The loss of a batch, without dropout.
  double evaluate(const Tensor& inputs, const Tensor& targets);
  /// The model's output for a batch, without dropout.
  Tensor predict(const Tensor& inputs);

  /// Updates so far; set when a checkpoint is loaded.
  std::int64_t steps() const { return steps_; }
  void resume_at(std::int64_t steps) { steps_ = steps; }

  const ParameterList& parameters() const { return stage_.parameters(); }
  const Tensor& weights() const { return weights_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  double accumulate(const Tensor& inputs, const Tensor& targets);

  TrainerSettings settings_;
  DevicePtr device_;
  Stage stage_;
  Tensor weights_, gradients_;  // flat
  std::unique_ptr<Optimizer> optimizer_;
  std::int64_t steps_ = 0;
};

}  // namespace paragrad::nn
