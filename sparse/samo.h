// Forms of the state of pruned stages. SAMO stores only the kept elements; the sparse form also
// computes with the kept elements only, by sparse_linear. The masked form stores all elements, with
// zeros for pruned ones: the same training with less code and more memory, as a reference for SAMO.
// Not here: masks (pruning.h); when weights are expanded (weight_store.cpp); dense products with
// zeros, which are faster while half of the weights are left (benchmarks/results/sparse_matmul.md).
// Chapter 11; Singh and Bhatele 2023 (SAMO), section III; Gale et al. 2020 (sparse kernels).
#pragma once

#include "parallel/engine/training.h"
#include "sparse/pruning.h"

namespace plangrad::sparse {

using namespace autograd;

// The tensors of a pattern are charged to the device's current category.

/// Makes a pattern of the elements at these indices into the flattened matrix. Values in the order
/// of the indices are in the pattern's order.
/// shapes: index (elements), i32, ascending within the matrix (check_index) -> a pattern
///         (rows,columns)
SparsePattern pattern_of(const Tensor& index, std::int64_t rows, std::int64_t columns);

/// Makes the pattern of the transposed matrix, for use with the values of `pattern`.
SparsePattern transposed(const SparsePattern& pattern);

/// The elements of a layer's weight (Out,In), by rows for x W^T and by columns for dy W.
struct SparseWeight {
  SparsePattern pattern, transposed;

  /// Makes both patterns from indices into the flattened weight (pattern_of).
  SparseWeight(const Tensor& index, std::int64_t out, std::int64_t in);
};

/// x W^T + bias; bias may be undefined. The gradient of `values` has their shape, and has
/// gradient_dtype.
/// shapes: x (...,In), values (elements) or (1,elements), bias (Out) -> (...,Out)
/// throws: Error if sizes or types differ
Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& values,
                     const Tensor& bias = {});

/// The base of all pruned forms. It holds the index of each pruned parameter, one tensor for
/// weights, gradients and optimizer state, charged to Category::index.
class PrunedForm : public StateForm {
 public:
  /// throws: Error if a mask does not fit its parameter
  PrunedForm(const ParameterList& parameters, const ParameterList& stored, const Masks& masks,
             const DevicePtr& device);

 protected:
  /// The index of a pruned parameter; undefined for another parameter.
  Tensor index_of(const Parameter& parameter) const;

 private:
  std::map<std::string, Tensor> index_by_name_;
};

/// Stores a pruned matrix as (1, kept elements): codecs recognise matrices by two dimensions.
class SamoForm : public PrunedForm {
 public:
  SamoForm(const ParameterList& parameters, const Masks& masks, const DevicePtr& device);

  bool expands() const override { return true; }
  using StateForm::compress;
  void add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const override;
  void compress(const Parameter& parameter, const Tensor& all, const Tensor& stored) const override;
  void expand(const Tensor& stored, const Tensor& all) const override;

 protected:
  /// The parameter's kept elements in a stored flat buffer.
  Tensor kept(const Tensor& stored, const Parameter& parameter) const;

  ParameterList kept_;

 private:
  void gather(const Parameter& parameter, const Tensor& x, bool adds, const Tensor& stored) const;

  std::map<std::string, const Parameter*> kept_by_name_;
};

// [snippet sparse_compute]
/// SAMO with forward and backward on the kept elements only: nothing is expanded, and gradients
/// have no other elements.
class SparseForm : public SamoForm {
 public:
  SparseForm(const ParameterList& parameters, const Masks& masks, const DevicePtr& device);

  bool expands() const override { return false; }
  void add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const override;
};
// [end snippet]

class MaskedForm : public PrunedForm {
 public:
  MaskedForm(const ParameterList& parameters, const Masks& masks, const DevicePtr& device)
      : PrunedForm(parameters, parameters, masks, device) {}

  using StateForm::compress;
  void add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const override;
  void compress(const Parameter& parameter, const Tensor& all, const Tensor& stored) const override;

 private:
  Tensor masked(const Parameter& parameter, const Tensor& x) const;
};

/// throws: Error that names a prunable parameter which is not the matrix of a linear layer: there
///         is no sparse product for it
void check_sparse(const ParameterList& parameters, bool all);

/// Makes forms of type `Form`; a stage without pruned parameters stays dense.
template <class Form>
MakeStateForm form_of(std::shared_ptr<const Masks> masks) {
  return [masks](const ParameterList& parameters, const DevicePtr& device) -> StateFormPtr {
    if (std::ranges::none_of(parameters, [&](auto& p) { return masks->contains(p.name); }))
      return std::make_shared<StateForm>(parameters);
    return std::make_shared<Form>(parameters, *masks, device);
  };
}

}  // namespace plangrad::sparse
