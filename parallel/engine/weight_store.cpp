// Versions are flat buffers by number. The optimizer's moments belong to the newest: they have no
// older copies (PipeDream-2BW, section 3.1).
// Not here: when a version dies (lifetimes.h), and how shards come together (row_messages.cpp).
// Chapters 07, 09 and 11.
#include "parallel/engine/weight_store.h"

namespace paragrad::parallel {

WeightStore::WeightStore(const Training& training, StateFormPtr form, const DevicePtr& device,
                         const Shard& shard)
    : form_(std::move(form)), shard_(shard), dtype_(training.dtype), device_(device) {
  find_shard(training);
}

void WeightStore::find_shard(const Training& training) {
  range_ = shard_.range(parameters().numel());
  own_parameters_ = parameters().part(range_.begin, range_.end);
  own_places_ = nn::places(own_parameters_, training.whole);
}

WeightStore::WeightStore(const Training& training, StateFormPtr form, int version,
                         const DevicePtr& device, const Shard& shard)
    : WeightStore(training, std::move(form), device, shard) {
  const Category category = form_->prunes() ? Category::workspace : Category::weights;
  Tensor first = flat(category, dtype_, form_->parameters().numel());
  initialize(form_->parameters(), first, training.seed);
  if (form_->prunes()) {
    Tensor stored = flat(Category::weights, dtype_, parameters().numel());
    form_->compress(first, stored);
    first = stored;
  }
  if (shard.zero == 3) {
    Tensor kept = flat(Category::weights, dtype_, range_.size());
    kept.backend().copy(own(first), kept);
    first = kept;
  }
  optimizer_ = training.optimizer(own_parameters_, own(first));
  versions_.emplace(version, first);
}

Tensor WeightStore::flat(Category category, DType dtype, std::int64_t count) const {
  CategoryScope scope(*device_, category);
  return empty({count}, dtype, device_);
}

Tensor WeightStore::own(const Tensor& x) const {
  return x.numel() == range_.size() ? x : x.window(range_.begin, {range_.size()});
}

const Tensor& WeightStore::weights(int version) const {
  auto found = whole().find(version);
  PG_CHECK(found != whole().end(), "version ", version, " of these weights is not here; there are ",
           versions_.empty() ? "none" : text(versions_.begin()->first, " to ", newest()));
  return found->second;
}

void WeightStore::keep_from(int oldest) {
  while (versions_.begin()->first < oldest) release(versions_.begin()->first);
  while (versions_.begin()->first > oldest) {
    const auto& [version, values] = *versions_.begin();
    Tensor copy = flat(Category::weights, dtype_, values.numel());
    values.backend().copy(values, copy);
    versions_.emplace(version - 1, copy);
  }
}

// [snippet dense]
const Tensor& WeightStore::dense(int version) {
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

void WeightStore::release(int version) {
  versions_.erase(version);
  gathered_.erase(version);
  if (expanded_ == version) expanded_ = -1;
}

void WeightStore::add(int version, const Parameter& parameter, const Tensor& dx) {
  form_->add(parameter, dx, sum(version));
}

Tensor WeightStore::sum(int version) {
  Tensor& sum = sums_[version];
  if (!sum.defined()) {
    sum = new_sum();
    sum.backend().fill(0, sum);
  }
  return sum;
}

Tensor WeightStore::new_sum() const {
  return flat(Category::gradients, gradient_dtype(dtype_), parameters().numel());
}

Tensor WeightStore::take_sum(int version) {
  auto taken = sums_.extract(version);
  PG_CHECK(taken, "no gradient was added to the sum for version ", version, " here");
  return taken.mapped();
}

Tensor WeightStore::own_sum(int version) { return own(sum(version)); }

void WeightStore::cut_sum(int version) {
  Tensor& sum = sums_.at(version);
  Tensor shard = flat(Category::gradients, sum.dtype(), range_.size());
  shard.backend().copy(own(sum), shard);
  sum = shard;
}

// [snippet step]
void WeightStore::step(const StepSettings& settings, bool keep_old) {
  const int version = newest() + 1;
  Tensor values = versions_.at(version - 1);
  if (keep_old) {
    Tensor old = std::exchange(values, flat(Category::weights, dtype_, values.numel()));
    values.backend().copy(own(old), own(values));
  } else {
    release(version - 1);
  }
  optimizer_->step(settings, own(values), own_sum(version));
  versions_.emplace(version, values);
  sums_.erase(version);
}
// [end snippet]

// [snippet gathered]
Tensor WeightStore::bring(int version) {
  Tensor& weights = whole()[version];
  if (weights.defined())
    weights.storage()->occupy();
  else
    weights = flat(Category::weights, dtype_, parameters().numel());
  return weights;
}

Tensor WeightStore::bring_shard(int version) {
  const Tensor& shard = versions_.at(version);
  if (shard_.zero < 3) return shard;  // the buffer is whole, but only the shard of it is new
  Tensor weights = bring(version);
  shard.backend().copy(shard, own(weights));
  return weights;
}

void WeightStore::drop(int version) {
  whole().at(version).storage()->vacate();
  drop_expanded(version);
}
// [end snippet]

void WeightStore::drop_expanded(int version) {
  if (expanded_ != version) return;
  dense_.storage()->vacate();
  expanded_ = -1;
}

void WeightStore::remember() {
  const Tensor& newest = versions_.rbegin()->second;
  remembered_ = flat(Category::weights, dtype_, newest.numel());
  newest.backend().copy(newest, remembered_);
}

void WeightStore::rewind(const Training& training) {
  PG_CHECK(remembered_.defined() && sums_.empty(), "weights can be rewound between plans, and to ",
           "values that were remembered");
  for (auto& [version, values] : versions_) values.backend().copy(remembered_, values);
  expanded_ = -1;
  optimizer_ = training.optimizer(own_parameters_, own(versions_.rbegin()->second));
  begun_ = newest();
}

void WeightStore::change_form(const Training& training, StateFormPtr form, const Whole& whole) {
  PG_CHECK(sums_.empty(), "the form of weights can change between plans only");
  const StateFormPtr before = std::exchange(form_, std::move(form));
  find_shard(training);
  auto changed = [&](const Tensor& buffer, bool sharded, Category category) {
    Tensor all =
        empty({before->parameters().numel()}, buffer.dtype(), device_, Category::workspace);
    before->expand(sharded ? whole(buffer, before->stored().numel()) : buffer, all);
    Tensor stored = flat(category, buffer.dtype(), parameters().numel());
    form_->compress(all, stored);
    if (!sharded) return stored;
    Tensor shard = flat(category, buffer.dtype(), range_.size());
    shard.backend().copy(own(stored), shard);
    return shard;
  };
  for (auto& [version, values] : versions_)
    values = changed(values, shard_.zero == 3, Category::weights);
  if (remembered_.defined())
    remembered_ = changed(remembered_, shard_.zero == 3, Category::weights);
  gathered_.clear();
  dense_ = {};
  expanded_ = -1;
  const auto optimizer = std::exchange(
      optimizer_, training.optimizer(own_parameters_, own(versions_.rbegin()->second)));
  for (std::size_t i = 0; i < optimizer->state().size(); ++i) {
    const Tensor state =
        changed(optimizer->state()[i].second, shard_.zero > 0, Category::optimizer);
    state.backend().copy(state, optimizer_->state()[i].second);
  }
}

}  // namespace paragrad::parallel
