// Training: what all ranks of a run agree on beside the plan: the model and its cut, types, seeds,
// the optimizer. Batches: where microbatches come from.
// Not here: who computes what, and when; that is the plan's. Chapter 05.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nn/models/model.h"
#include "nn/optimizers/optimizer.h"
#include "parallel/engine/state_form.h"
#include "parallel/plan/plan.h"

namespace plangrad::parallel {

using namespace nn;

/// The microbatches of a plan, by their numbers. A rank asks for those that it works on.
class Batches {
 public:
  virtual ~Batches() = default;
  /// The shape of a microbatch's inputs.
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
  ParameterList whole;    ///< all parameters, in the order in which norms add them up

  DType dtype = DType::f32;  ///< of weights and activations
  std::uint64_t seed = 1337;
  MakeOptimizer optimizer;  ///< default: AdamW
  MakeStateForm form;       ///< of a stage's state; default: dense
  LearningRate learning_rate;
  double clip = 1;                ///< largest norm of the gradient; 0: no limit
  bool recompute_layers = false;  ///< keep only what enters each layer
  bool count_accuracy = false;    ///< evaluations measure the accuracy, too

  /// Fills weights before the first update, for the parameters of the whole model or of a stage;
  /// default: values drawn from the seed.
  std::function<void(const ParameterList& parameters, const Tensor& weights)> first_weights;
  /// Fills the buffer of a stage with its first weights.
  void fill(const ParameterList& parameters, const Tensor& weights) const;

  int stages() const { return static_cast<int>(cuts.size()) - 1; }
};

// ---- whether codecs have anything to act on in the model (codec_fit.cpp; chapter 10) ----

/// throws: Error if a codec of the plan's header would change no value of this training
void check_codecs(const Plan& plan, const Training& training);

/// Parameters of the stages whose sums leave a rank.
std::vector<Parameter> summed_parameters(const Plan& plan, const Training& training);

/// throws: Error if the codec makes large messages of this type no smaller; `flag` sets the codec
void check_smaller(const std::string& flag, const CodecSpec& spec, DType dtype);

/// throws: Error if an adaptive codec chooses no bits in time to be used in a run from update
///         `first` to `last`, and none were `chosen` before
void check_period(const CodecSpec& spec, int first, int last, bool chosen);

}  // namespace plangrad::parallel
