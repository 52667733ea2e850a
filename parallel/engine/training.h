// Training: what all ranks of a run agree on beside the plan: the model and its cut, types, seeds,
// the optimizer. Batches: where microbatches come from.
// Not here: who computes what, and when; that is the plan's. Chapter 05.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nn/models/cut.h"
#include "nn/optimizers/optimizer.h"
#include "parallel/engine/state_form.h"

namespace paragrad::parallel {

using namespace nn;

/// The microbatches of a plan, by its numbers. A rank asks for those that it works on.
class Batches {
 public:
  virtual ~Batches() = default;
  /// Of a microbatch's inputs.
  virtual Shape shape(int micro) const = 0;
  virtual Tensor inputs(int micro, const DevicePtr& device) = 0;
  /// Class ids, as cross_entropy takes them.
  virtual Tensor targets(int micro, const DevicePtr& device) = 0;
};

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const ParameterList& parameters,
                                                               const Tensor& weights)>;

struct Training {
  /// Cuts the model into stages of about equal arithmetic.
  /// throws: Error if it has fewer layers than stages
  Training(const Model& model, int stages);

  Model model;
  std::vector<int> cuts;  ///< stage s is layers [cuts[s], cuts[s + 1])
  Shared shared;          ///< parameters that stages share: the tied stage of the plan
  ParameterList whole;    ///< all parameters, in the order that norms are added up in

  DType dtype = DType::f32;  ///< of weights and activations
  std::uint64_t seed = 1337;
  MakeOptimizer optimizer;  ///< default: AdamW
  MakeStateForm form;       ///< of a stage's state; default: dense
  LearningRate learning_rate;
  double clip = 1;                ///< largest norm of the gradient; 0: any
  bool recompute_layers = false;  ///< keep only what enters each layer
  bool counts_right = false;      ///< evaluations count right predictions, too

  int stages() const { return static_cast<int>(cuts.size()) - 1; }
};

/// Where to cut a model so that the most expensive stage costs least, by the layers' flops.
/// shapes: stages + 1 ascending numbers of layers, from 0 on
/// throws: Error if it has fewer layers than stages
std::vector<int> balanced_cuts(const Model& model, int stages);

}  // namespace paragrad::parallel
