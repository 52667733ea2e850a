// Everything is done parameter by parameter with two kernels: gather and expand.
// Chapter 11.
#include "sparse/samo.h"

#include <algorithm>

#include "sparse/sparse_linear.h"

namespace paragrad::sparse {

namespace {

Shape kept_shape(const Parameter& parameter, const Index& index) {
  const auto count = static_cast<std::int64_t>(index.size());
  return parameter.shape.rank() >= 2 ? Shape{1, count} : Shape{count};
}

/// The same parameter with another shape.
void add_like(ParameterList& list, const Parameter& parameter, const Shape& shape) {
  Parameter& added = list.add(parameter.name, shape, parameter.init, parameter.kind);
  added.shared = parameter.shared;
  added.decays = parameter.decays;
}

ParameterList kept_list(const ParameterList& parameters, const Masks& masks) {
  ParameterList kept;
  for (const Parameter& parameter : parameters) {
    const auto mask = masks.find(parameter.name);
    add_like(kept, parameter,
             mask == masks.end() ? parameter.shape : kept_shape(parameter, mask->second));
  }
  return kept;
}

Tensor window(const Tensor& flat, const Parameter& parameter) {
  return flat.window(parameter.offset, {parameter.shape.numel()});
}

/// sparse_linear with the kept elements of one matrix.
class SparseProduct : public Product {
 public:
  SparseProduct(const Tensor& index, const Shape& shape) : weight_(index, shape[0], shape[1]) {}
  Tensor linear(const Tensor& x, const Tensor& values, const Tensor& bias) const override {
    return sparse_linear(x, weight_, values, bias);
  }

 private:
  SparseWeight weight_;
};

template <class Form>
MakeStateForm form_of(std::shared_ptr<const Masks> masks) {
  return [masks](const ParameterList& parameters, const DevicePtr& device) -> StateFormPtr {
    const bool any = std::any_of(parameters.begin(), parameters.end(),
                                 [&](const Parameter& p) { return masks->contains(p.name); });
    if (!any) return std::make_shared<StateForm>(parameters);
    return std::make_shared<Form>(parameters, *masks, device);
  };
}

void check_multiplies(const Parameter& parameter) {
  PG_CHECK(parameter.multiplies, "sparse compute: ", parameter.name, " ", parameter.shape,
           " is pruned, but is not only multiplied with; there are sparse products for the ",
           "matrices of linear layers alone: leave out --sparse-compute or --prune-all");
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
    add_like(pruned_, parameter, kept_shape(parameter, mask->second));
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
    : PrunedForm(parameters, kept_, masks, device), kept_(kept_list(parameters, masks)) {
  for (const Parameter& parameter : kept_) kept_by_name_[parameter.name] = &parameter;
}

Tensor SamoForm::kept(const Tensor& stored, const Parameter& parameter) const {
  return window(stored, *kept_by_name_.at(parameter.name));
}

// [snippet gathered]
/// As soon as backward has made it; then the dense gradient is freed.
void SamoForm::add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const {
  const Tensor total = kept(sum, parameter);
  const Tensor index = index_of(parameter);
  if (index.defined())
    dx.backend().gather(dx, index, /*add*/ true, total);
  else
    dx.backend().accumulate(dx, total);
}
// [end snippet]

void SamoForm::compress(const Parameter& parameter, const Tensor& all, const Tensor& stored) const {
  const Tensor to = kept(stored, parameter);
  const Tensor index = index_of(parameter);
  if (index.defined())
    all.backend().gather(all, index, /*add*/ false, to);
  else
    all.backend().copy(all, to);
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
      kept.product = std::make_shared<SparseProduct>(index_of(parameter), parameter.shape);
    }
  }
}

void SparseForm::add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const {
  dx.backend().accumulate(dx, kept(sum, parameter));
}

/// x with zeros where elements are pruned; x itself if the parameter is not.
Tensor MaskedForm::masked(const Parameter& parameter, const Tensor& x) const {
  const Tensor index = index_of(parameter);
  if (!index.defined()) return x;
  CategoryScope category(*x.device(), Category::workspace);
  const Tensor kept = empty(index.shape(), x.dtype(), x.device()), result = empty_like(x);
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

MakeStateForm samo_form(std::shared_ptr<const Masks> masks) {
  return form_of<SamoForm>(std::move(masks));
}

MakeStateForm sparse_form(std::shared_ptr<const Masks> masks) {
  return form_of<SparseForm>(std::move(masks));
}

MakeStateForm masked_form(std::shared_ptr<const Masks> masks) {
  return form_of<MaskedForm>(std::move(masks));
}

}  // namespace paragrad::sparse
