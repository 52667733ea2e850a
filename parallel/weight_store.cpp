// Versions are flat buffers by number. The optimizer's moments belong to the newest: they have no
// older copies (PipeDream-2BW, section 3.1).
// Chapter 07.
#include "parallel/weight_store.h"

namespace paragrad::parallel {

WeightStore::WeightStore(const Training& training, const ParameterList& parameters, int version,
                         const DevicePtr& device)
    : parameters_(parameters), places_(nn::places(parameters, training.whole)), device_(device) {
  Tensor first = flat(Category::weights, training.dtype);
  initialize(parameters, first, training.seed);
  optimizer_ = training.optimizer(parameters, first);
  versions_.emplace(version, first);
}

Tensor WeightStore::flat(Category category, DType dtype) const {
  CategoryScope scope(*device_, category);
  return empty({parameters_.numel()}, dtype, device_);
}

const Tensor& WeightStore::weights(int version) const {
  auto found = versions_.find(version);
  PG_CHECK(found != versions_.end(), "version ", version,
           " of these weights is not here; there are ", versions_.begin()->first, " to ", newest());
  return found->second;
}

void WeightStore::keep_from(int oldest) {
  while (versions_.begin()->first < oldest) versions_.erase(versions_.begin());
  while (versions_.begin()->first > oldest) {
    const auto& [version, values] = *versions_.begin();
    Tensor copy = flat(Category::weights, values.dtype());
    values.backend().copy(values, copy);
    versions_.emplace(version - 1, copy);
  }
}

void WeightStore::renumber(int version) {
  Tensor values = versions_.rbegin()->second;
  versions_ = {{version, values}};
}

void WeightStore::add(int version, const Parameter& parameter, const Tensor& dx) {
  dx.backend().accumulate(dx, sum(version).window(parameter.offset, parameter.shape));
}

Tensor WeightStore::sum(int version) {
  Tensor& sum = sums_[version];
  if (!sum.defined()) {
    sum = flat(Category::gradients, gradient_dtype(versions_.begin()->second.dtype()));
    sum.backend().fill(0, sum);
  }
  return sum;
}

// [snippet step]
void WeightStore::step(const StepSettings& settings, bool keep_old) {
  auto newest = *versions_.rbegin();
  Tensor values = newest.second;
  if (keep_old) {
    values = flat(Category::weights, values.dtype());
    values.backend().copy(newest.second, values);
  } else {
    versions_.erase(newest.first);
  }
  optimizer_->step(settings, values, sum(newest.first + 1));
  versions_.emplace(newest.first + 1, values);
  sums_.erase(newest.first + 1);
}
// [end snippet]

}  // namespace paragrad::parallel
