// Versions and sums are flat buffers by number.
// Not here: when a version dies (lifetimes.h).
// Chapters 07, 09 and 11.
#include "parallel/engine/stage_buffers.h"

namespace paragrad::parallel {

StageBuffers::StageBuffers(const Training& training, StateFormPtr form, const DevicePtr& device)
    : form_(std::move(form)), dtype_(training.dtype), device_(device) {}

Tensor StageBuffers::flat(Category category, DType dtype, std::int64_t count) const {
  CategoryScope scope(*device_, category);
  return empty({count}, dtype, device_);
}

const Tensor& StageBuffers::weights(int version) const {
  auto found = whole_.find(version);
  PG_CHECK(found != whole_.end(), "version ", version, " of these weights is not here; there are ",
           whole_.empty() ? "none" : text(whole_.begin()->first, " to ", whole_.rbegin()->first));
  return found->second;
}

// [snippet dense]
const Tensor& StageBuffers::dense(int version) {
  if (!form_->expands()) return weights(version);
  if (std::exchange(expanded_, version) == version) return dense_;
  if (dense_.defined())
    dense_.storage()->occupy();
  else
    dense_ = flat(Category::weights, dtype_, form_->parameters().numel());
  form_->expand(weights(version), dense_);
  return dense_;
}
// [end snippet]

// [snippet gathered]
Tensor StageBuffers::bring(int version) {
  Tensor& weights = whole_[version];
  if (weights.defined())
    weights.storage()->occupy();
  else
    weights = flat(Category::weights, dtype_, parameters().numel());
  return weights;
}

void StageBuffers::drop(int version) {
  whole_.at(version).storage()->vacate();
  if (expanded_ != version) return;
  dense_.storage()->vacate();
  forget_expanded();
}
// [end snippet]

void StageBuffers::release(int version) {
  whole_.erase(version);
  if (expanded_ == version) forget_expanded();
}

void StageBuffers::add(int version, const Parameter& parameter, const Tensor& dx) {
  form_->add(parameter, dx, sum(version));
}

Tensor StageBuffers::sum(int version) {
  Tensor& sum = sums_[version];
  if (!sum.defined()) {
    sum = new_sum();
    sum.backend().fill(0, sum);
  }
  return sum;
}

Tensor StageBuffers::new_sum() const {
  return flat(Category::gradients, gradient_dtype(dtype_), parameters().numel());
}

Tensor StageBuffers::take_sum(int version) {
  auto taken = sums_.extract(version);
  PG_CHECK(taken, "no gradient was added to the sum for version ", version, " here");
  return taken.mapped();
}

}  // namespace paragrad::parallel
