// Compresses and expands each parameter on its own, with two kernels: gather and expand.
// Chapter 11.
#include "sparse/samo.h"

#include "sparse/sparse_linear.h"

namespace plangrad::sparse {

namespace {

/// Adds to the list the elements of a parameter that the masks keep.
void add_kept(ParameterList& list, const Parameter& parameter, const Masks& masks) {
  Shape shape = parameter.shape;
  if (const auto mask = masks.find(parameter.name); mask != masks.end()) {
    const auto count = static_cast<std::int64_t>(mask->second.size());
    shape = shape.rank() >= 2 ? Shape{1, count} : Shape{count};
  }
  Parameter& added = list.add(parameter.name, shape, parameter.init, parameter.kind);
  added.shared = parameter.shared;
  added.decays = parameter.decays;
}

Tensor window(const Tensor& flat, const Parameter& parameter) {
  return flat.window(parameter.offset, {parameter.shape.numel()});
}

void check_multiplies(const Parameter& parameter) {
  PG_CHECK(parameter.multiplies, "sparse compute: ", parameter.name, " ", parameter.shape,
           " is pruned, but is not only multiplied with; sparse products exist only for the ",
           "matrices of linear layers: leave out --sparse-compute or --prune-all");
}

}  // namespace

void check_sparse(const ParameterList& parameters, bool all) {
  for (const Parameter& parameter : parameters)
    if (is_prunable(parameter, all)) check_multiplies(parameter);
}

PrunedForm::PrunedForm(const ParameterList& parameters, const ParameterList& stored,
                       const Masks& masks, const DevicePtr& device)
    : StateForm(parameters, stored) {
  Index all;
  for (const Parameter& parameter : parameters) {
    const auto mask = masks.find(parameter.name);
    if (mask == masks.end()) continue;
    check_index(parameter, mask->second);
    add_kept(pruned_, parameter, masks);
    all.insert(all.end(), mask->second.begin(), mask->second.end());
  }
  CategoryScope category(*device, Category::index);
  index_ = from_host(all, {static_cast<std::int64_t>(all.size())}, device);
  for (const Parameter& pruned : pruned_) index_by_name_[pruned.name] = window(index_, pruned);
}

Tensor PrunedForm::index_of(const Parameter& parameter) const {
  const auto found = index_by_name_.find(parameter.name);
  return found == index_by_name_.end() ? Tensor() : found->second;
}

SamoForm::SamoForm(const ParameterList& parameters, const Masks& masks, const DevicePtr& device)
    : PrunedForm(parameters, kept_, masks, device) {
  for (const Parameter& parameter : parameters) add_kept(kept_, parameter, masks);
  for (const Parameter& parameter : kept_) kept_by_name_[parameter.name] = &parameter;
}

Tensor SamoForm::kept(const Tensor& stored, const Parameter& parameter) const {
  return window(stored, *kept_by_name_.at(parameter.name));
}

// [snippet gathered]
/// Writes the kept elements of x to their place in storage, or adds them there.
void SamoForm::gather(const Parameter& parameter, const Tensor& x, bool adds,
                      const Tensor& stored) const {
  const Tensor to = kept(stored, parameter);
  const Tensor index = index_of(parameter);
  if (index.defined()) return x.backend().gather(x, index, adds, to);
  adds ? x.backend().accumulate(x, to) : x.backend().copy(x, to);
}

/// Gathers a gradient as soon as backward has made it; then the dense gradient is freed.
void SamoForm::add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const {
  gather(parameter, dx, /*adds*/ true, sum);
}
// [end snippet]

void SamoForm::compress(const Parameter& parameter, const Tensor& all, const Tensor& stored) const {
  gather(parameter, all, /*adds*/ false, stored);
}

void SamoForm::expand(const Tensor& stored, const Tensor& all) const {
  for (const Parameter& parameter : parameters_) {
    const Tensor from = kept(stored, parameter);
    const Tensor to = window(all, parameter);
    const Tensor index = index_of(parameter);
    if (index.defined())
      from.backend().expand(from, index, to);
    else
      from.backend().copy(from, to);
  }
}

SparseForm::SparseForm(const ParameterList& parameters, const Masks& masks, const DevicePtr& device)
    : SamoForm(parameters, masks, device) {
  CategoryScope category(*device, Category::index);
  auto stored = kept_.begin();
  for (const Parameter& parameter : parameters) {
    Parameter& kept = *stored++;
    if (index_of(parameter).defined()) {
      check_multiplies(parameter);
      const auto weight = std::make_shared<const SparseWeight>(
          index_of(parameter), parameter.shape[0], parameter.shape[1]);
      kept.product = [weight](const Tensor& x, const Tensor& values, const Tensor& bias) {
        return sparse_linear(x, *weight, values, bias);
      };
    }
  }
}

void SparseForm::add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const {
  dx.backend().accumulate(dx, kept(sum, parameter));
}

/// x with zeros for pruned elements; x itself if the parameter is not pruned.
Tensor MaskedForm::masked(const Parameter& parameter, const Tensor& x) const {
  const Tensor index = index_of(parameter);
  if (!index.defined()) return x;
  const Tensor kept = workspace(index.shape(), x.dtype(), x.device());
  const Tensor result = workspace(x.shape(), x.dtype(), x.device());
  x.backend().gather(x, index, /*add*/ false, kept);
  x.backend().expand(kept, index, result);
  return result;
}

void MaskedForm::add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const {
  StateForm::add(parameter, masked(parameter, dx), sum);
}

void MaskedForm::compress(const Parameter& parameter, const Tensor& all,
                          const Tensor& stored) const {
  StateForm::compress(parameter, masked(parameter, all), stored);
}

}  // namespace plangrad::sparse
