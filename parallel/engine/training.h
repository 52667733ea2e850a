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

// ---- whether codecs have anything to act on in the model (codec_fit.cpp; chapter 10) ----

/// throws: Error if a codec of the plan's header would change no value of this training
void check_codecs(const Plan& plan, const Training& training);

/// Parameters of the stages whose sums leave a rank.
std::vector<Parameter> summed_parameters(const Plan& plan, const Training& training);

/// throws: Error if messages of many values of this type do not become smaller; `flag` asks for it
void check_smaller(const std::string& flag, const CodecSpec& spec, DType dtype);

/// Whether bits are chosen in a run from update `first` to `last` in time to be used. `chosen`:
/// some were before.
/// throws: Error if not, and the codec is adaptive
void check_period(const CodecSpec& spec, int first, int last, bool chosen);

}  // namespace paragrad::parallel
