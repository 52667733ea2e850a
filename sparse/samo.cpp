// Compresses and expands each parameter on its own, with two kernels: gather and expand. Makes
// sparse patterns on the host, once per mask; and applies the formulas of linear()
// (autograd/ops/matmul.cpp) with sparse products, forward beside backward.
// Not here: the products, which are kernels of the backend. Chapter 11; Gale et al. 2020.
#include "sparse/samo.h"

#include <numeric>

namespace plangrad::sparse {
namespace {

using Integers = std::vector<std::int32_t>;

Integers host_integers(const Tensor& x) {
  Integers values(x.numel());
  x.backend().copy_to_host(x, values.data());
  return values;
}

Tensor on_device(const Integers& values, const DevicePtr& device) {
  return from_host(values, {static_cast<std::int64_t>(values.size())}, device);
}

/// Computes where each row begins from the rows of all elements; the last offset is the end.
Integers offsets_of(const Integers& rows, std::int64_t count) {
  Integers offsets(count + 1);
  for (std::int32_t row : rows) ++offsets[row + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return offsets;
}

}  // namespace

SparsePattern pattern_of(const Tensor& index, std::int64_t rows, std::int64_t columns) {
  Integers row = host_integers(index), column(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::int64_t flat = row[i];
    row[i] = static_cast<std::int32_t>(flat / columns);
    column[i] = static_cast<std::int32_t>(flat % columns);
  }
  return {on_device(offsets_of(row, rows), index.device()), on_device(column, index.device()),
          columns};
}

SparsePattern transposed(const SparsePattern& pattern) {
  Integers columns = host_integers(pattern.columns), ends = host_integers(pattern.offsets);
  Integers offsets = offsets_of(columns, pattern.width), next = offsets;
  Integers row(columns.size()), source(columns.size());
  for (std::int32_t r = 0, i = 0; r < pattern.rows(); ++r)
    for (; i < ends[r + 1]; ++i) {
      std::int32_t to = next[columns[i]]++;
      row[to] = r;
      source[to] = i;
    }
  const DevicePtr& device = pattern.columns.device();
  return {on_device(offsets, device), on_device(row, device), pattern.rows(),
          on_device(source, device)};
}

SparseWeight::SparseWeight(const Tensor& index, std::int64_t out, std::int64_t in)
    : pattern(pattern_of(index, out, in)), transposed(sparse::transposed(pattern)) {}

// y = x W^T + b:  dx = dy W,  dW = dy^T x at W's elements,  db = the sum of dy over its rows
Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& values,
                     const Tensor& bias) {
  std::int64_t in = weight.pattern.width, out = weight.pattern.rows(), rows = x.numel() / in;
  PG_CHECK(x.shape().rank() >= 1 && x.size(-1) == in, "sparse_linear: x is ", x.shape(),
           ", the weight (", out, ",", in, "); expected x (...,", in, ")");
  PG_CHECK(values.numel() == weight.pattern.elements() && values.dtype() == x.dtype(),
           "sparse_linear: the values are ", values, "; expected ", x.dtype(), " (",
           weight.pattern.elements(), ")");
  PG_CHECK(!bias.defined() || (bias.shape() == Shape{out} && bias.dtype() == x.dtype()),
           "sparse_linear: the bias is ", bias, "; expected ", x.dtype(), " (", out, ")");
  Tensor flat = x.window(0, {rows, in}), y = empty({rows, out}, x.dtype(), x.device());
  x.backend().spmm(weight.pattern, values, flat, bias, y);
  return record(y.window(0, x.shape().with(-1, out)), "sparse_linear", {x, values, bias},
                [=](const Tensor& dy, const Wanted& wanted) -> std::vector<Tensor> {
                  Tensor d = dy.window(0, {rows, out}), dx, dw, db;
                  DType dtype = gradient_dtype(values.dtype());
                  if (wanted[0]) {
                    dx = empty(x.shape(), x.dtype(), x.device());
                    d.backend().spmm(weight.transposed, values, d, {}, dx.window(0, {rows, in}));
                  }
                  if (wanted[1]) {
                    dw = empty(values.shape(), dtype, values.device());
                    d.backend().sddmm(weight.pattern, d, flat, dw);
                  }
                  if (wanted[2]) {
                    db = empty({1, out}, dtype, bias.device());
                    d.backend().reduce(Reduction::sum, d, db);
                    db = db.window(0, {out});
                  }
                  return {dx, dw, db};
                });
}

/// Adds to the list the elements of a parameter that the masks keep.
static void add_kept(ParameterList& list, const Parameter& parameter, const Masks& masks) {
  Shape shape = parameter.shape;
  if (const auto mask = masks.find(parameter.name); mask != masks.end()) {
    const auto count = static_cast<std::int64_t>(mask->second.size());
    shape = shape.rank() >= 2 ? Shape{1, count} : Shape{count};
  }
  Parameter& added = list.add(parameter.name, shape, parameter.init, parameter.kind);
  added.shared = parameter.shared;
  added.decays = parameter.decays;
}

static Tensor window(const Tensor& flat, const Parameter& parameter) {
  return flat.window(parameter.offset, {parameter.shape.numel()});
}

static void check_multiplies(const Parameter& parameter) {
  PG_CHECK(parameter.multiplies, "sparse compute: ", parameter.name, " ", parameter.shape,
           " is pruned, but is not only multiplied with; sparse products exist only for the ",
           "matrices of linear layers: leave out --sparse-compute or --prune-all");
}

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
