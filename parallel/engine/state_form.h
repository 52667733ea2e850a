// StateForm: how the state of a stage lies in flat buffers: its versions, gradient sums, optimizer
// state, and every message of them. The form here is dense: as forward reads the weights. Pruned
// weights are stored in other forms (sparse/samo.h).
// Not here: the buffers (weight_store.h). Chapter 11; Singh and Bhatele 2023 (SAMO).
#pragma once

#include <functional>
#include <memory>

#include "autograd/backend.h"
#include "nn/models/parameter.h"

namespace plangrad::parallel {

using namespace nn;

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
  bool prunes() const { return pruned_.size() > 0; }

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

}  // namespace plangrad::parallel
