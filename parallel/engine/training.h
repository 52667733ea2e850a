// Training: what all ranks of a run agree on beside the plan: the model and its cut, types, seeds,
// the optimizer. Batches: where microbatches come from. StateForm: how the state of a stage lies in
// flat buffers: its versions, gradient sums, optimizer state, and every message of them. The form
// here is dense: as forward reads the weights; pruned weights have other forms (sparse/samo.h).
// Not here: who computes what, and when, which is the plan's; and the buffers (weight_store.h).
// Chapters 05, 06 and 11; Singh and Bhatele 2023 (SAMO).
#pragma once

#include "nn/models/model.h"
#include "nn/optimizers/optimizer.h"
#include "parallel/plan/plan.h"

namespace plangrad::parallel {

using namespace nn;

/// The form in which a stage keeps its weights, gradients and optimizer state: dense, or only the
/// elements that a pruned network has.
// [snippet form]
class StateForm {
 public:
  /// The dense form. `parameters` must outlive it.
  explicit StateForm(const ParameterList& parameters) : StateForm(parameters, parameters) {}
  virtual ~StateForm() = default;
  StateForm(const StateForm&) = delete;
  StateForm& operator=(const StateForm&) = delete;

  /// The parameters as forward reads them, N elements, and as they are stored, n elements: the same
  /// parameters in the same order, each with only its kept elements.
  const ParameterList& parameters() const { return parameters_; }
  const ParameterList& stored() const { return stored_; }

  /// Whether stored buffers are expanded before forward reads them; else it reads them as they are.
  virtual bool expands() const { return false; }
  const ParameterList& read() const { return expands() ? parameters_ : stored_; }

  /// Adds the gradient of one of parameters() to a stored sum (n).
  virtual void add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const {
    dx.backend().accumulate(dx, sum.window(parameter.offset, parameter.shape));
  }
  /// Stores one of parameters(), all its elements, in a stored buffer (n) of the same type.
  virtual void compress(const Parameter& parameter, const Tensor& all, const Tensor& stored) const {
    all.backend().copy(all, stored.window(parameter.offset, parameter.shape));
  }
  /// Stores all parameters (N) in a stored buffer (n) of the same type.
  void compress(const Tensor& all, const Tensor& stored) const {
    for (const Parameter& parameter : parameters_)
      compress(parameter, all.window(parameter.offset, parameter.shape), stored);
  }
  /// Expands stored elements (n) to all (N), with zeros for those that are not stored.
  virtual void expand(const Tensor& stored, const Tensor& all) const {
    stored.backend().copy(stored, all);
  }

  /// The pruned parameters with their kept elements only, and a flat buffer (i32) like them: the
  /// places of these elements, ascending. No parameters if nothing is pruned.
  const ParameterList& pruned() const { return pruned_; }
  const Tensor& index() const { return index_; }
  bool has_index() const { return pruned_.size() > 0; }

 protected:
  StateForm(const ParameterList& parameters, const ParameterList& stored)
      : parameters_(parameters), stored_(stored) {}

  const ParameterList& parameters_;
  const ParameterList& stored_;
  ParameterList pruned_;
  Tensor index_;
};
// [end snippet]

using StateFormPtr = std::shared_ptr<const StateForm>;
/// Makes the form of a stage with these parameters, which must outlive it.
using MakeStateForm =
    std::function<StateFormPtr(const ParameterList& parameters, const DevicePtr& device)>;

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
  /// Cuts the model into stages of about equal arithmetic, or as Layout::cuts says.
  /// throws: Error if it has fewer layers than stages, or ends before the last of these cuts
  Training(const Model& model, int stages, const std::vector<double>& cuts = {});

  Model model;            ///< the model, in which a layer that is cut in two is two layers
  std::vector<int> cuts;  ///< stage s is layers [cuts[s], cuts[s + 1])
  Shared shared;          ///< parameters that stages share: the tied stage of the plan
  ParameterList whole;    ///< all parameters, in the order in which norms add them up

  DType dtype = DType::f32;  ///< the type of weights and activations
  std::uint64_t seed = 1337;
  MakeOptimizer optimizer;  ///< default: AdamW
  MakeStateForm form;       ///< makes the form of a stage's state; default: dense
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

 private:
  explicit Training(CutModel found);
};

// ---- whether codecs have anything to act on in the model (chapter 10) ----

/// throws: Error if a codec of the plan's header would change no value of this training
void check_codecs(const Plan& plan, const Training& training);

/// Parameters of the stages whose sums leave a rank.
std::vector<Parameter> summed_parameters(const Plan& plan, const Training& training);

// ---- the cut of a model ----

/// Whether a stage of layers [first, last) fits into the memory of its rank.
using StageFits = std::function<bool(int stage, int first, int last)>;

/// Finds the best cuts by dynamic programming, in stages * layers^2 steps. Among equal ones the
/// earliest cuts count, from the last stage on.
///   costs: of layers;  fits: null: all do
/// returns: stages + 1 ascending numbers of layers, from 0 on; empty: no cuts fit
std::vector<int> partition(const std::vector<double>& costs, int stages,
                           const StageFits& fits = nullptr);

}  // namespace plangrad::parallel
