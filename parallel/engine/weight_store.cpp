// Versions and sums are flat buffers by version number. The optimizer's moments belong to the
// newest version: they have no older copies (PipeDream-2BW, section 3.1). Not here: when a version
// is freed (lifetimes.h), and how shards are gathered (interpreter.cpp). Chapters 07, 09 and 11.
#include "parallel/engine/weight_store.h"

namespace plangrad::parallel {

Tensor StageBuffers::flat(Category category, DType dtype, std::int64_t count) const {
  CategoryScope scope(*device_, category);
  return empty({count}, dtype, device_);
}

Tensor StageBuffers::copied(const Tensor& x, Category category) const {
  Tensor copy = flat(category, x.dtype(), x.numel());
  x.backend().copy(x, copy);
  return copy;
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

GradientSum& StageBuffers::begun_sum(int version) {
  if (auto found = sums_.find(version); found != sums_.end()) return found->second;
  const Tensor flat = new_sum();
  if (form_->has_index()) flat.backend().fill(0, flat);
  const GradientSum sum = form_->has_index() ? GradientSum(flat) : GradientSum(flat, parameters());
  return sums_.emplace(version, sum).first->second;
}

Tensor StageBuffers::take_sum(int version) {
  auto taken = sums_.extract(version);
  PG_CHECK(taken, "no gradient was added to the sum for version ", version, " here");
  return taken.mapped().whole();
}

void WeightStore::find_shard(const Training& training) {
  range_ = shard_.range(parameters().numel());
  own_parameters_ = parameters().part(range_.begin, range_.end);
  own_places_ = nn::places(own_parameters_, training.whole);
}

WeightStore::WeightStore(const Training& training, StateFormPtr form, int version,
                         const DevicePtr& device, const Shard& shard)
    : StageBuffers(training, std::move(form), device), shard_(shard) {
  find_shard(training);
  const Category category = form_->has_index() ? Category::workspace : Category::weights;
  Tensor first = flat(category, dtype_, form_->parameters().numel());
  training.fill(form_->parameters(), first);
  if (form_->has_index()) {
    Tensor stored = flat(Category::weights, dtype_, parameters().numel());
    form_->compress(first, stored);
    first = stored;
  }
  if (shard.zero == 3) first = copied(own(first), Category::weights);
  optimizer_ = training.optimizer(own_parameters_, own(first));
  own_versions().emplace(version, first);
}

Tensor WeightStore::own(const Tensor& x) const {
  return x.numel() == range_.size() ? x : x.window(range_.begin, {range_.size()});
}

void WeightStore::keep_from(int oldest) {
  std::map<int, Tensor>& versions = own_versions();
  while (versions.begin()->first < oldest) release(versions.begin()->first);
  while (versions.begin()->first > oldest) {
    const auto& [version, values] = *versions.begin();
    versions.emplace(version - 1, copied(values, Category::weights));
  }
}

void WeightStore::release(int version) {
  shards_.erase(version);
  StageBuffers::release(version);
}

void WeightStore::cut_sum(int version) {
  GradientSum& sum = sums_.at(version);
  sum = GradientSum(copied(own(sum.whole()), Category::gradients));
}

// [snippet step]
void WeightStore::step(const StepSettings& settings, bool keep_old) {
  const int version = newest() + 1;
  Tensor values = own_versions().at(version - 1);
  if (keep_old) {
    Tensor old = std::exchange(values, flat(Category::weights, dtype_, values.numel()));
    values.backend().copy(own(old), own(values));
  } else {
    release(version - 1);
  }
  optimizer_->step(settings, own(values), own_sum(version));
  own_versions().emplace(version, values);
  sums_.erase(version);
}
// [end snippet]

// [snippet bring_shard]
Tensor WeightStore::bring_shard(int version) {
  const Tensor& shard = versions().at(version);
  if (shard_.zero < 3) return shard;  // the buffer is whole, but only the shard of it is new
  Tensor weights = bring(version);
  shard.backend().copy(shard, own(weights));
  return weights;
}
// [end snippet]

void WeightStore::remember() {
  remembered_ = copied(versions().rbegin()->second, Category::weights);
}

void WeightStore::rewind(const Training& training) {
  PG_CHECK(remembered_.defined() && sums_.empty(), "weights can only be rewound between plans, ",
           "to remembered values");
  for (auto& [version, values] : own_versions()) values.backend().copy(remembered_, values);
  forget_expanded();
  optimizer_ = training.optimizer(own_parameters_, own(versions().rbegin()->second));
  begun_ = newest();
}

void WeightStore::change_form(const Training& training, StateFormPtr form, const Whole& whole) {
  PG_CHECK(sums_.empty(), "the form of weights can only change between plans");
  const StateFormPtr before = std::exchange(form_, std::move(form));
  find_shard(training);
  auto changed = [&](const Tensor& buffer, bool sharded, Category category) {
    Tensor all =
        empty({before->parameters().numel()}, buffer.dtype(), device_, Category::workspace);
    before->expand(sharded ? whole(buffer, before->stored().numel()) : buffer, all);
    Tensor stored = flat(category, buffer.dtype(), parameters().numel());
    form_->compress(all, stored);
    return sharded ? copied(own(stored), category) : stored;
  };
  for (auto& [version, values] : own_versions())
    values = changed(values, shard_.zero == 3, Category::weights);
  if (remembered_.defined())
    remembered_ = changed(remembered_, shard_.zero == 3, Category::weights);
  if (shard_.zero == 3) whole_.clear();
  dense_ = {};
  forget_expanded();
  const auto optimizer = std::exchange(
      optimizer_, training.optimizer(own_parameters_, own(versions().rbegin()->second)));
  for (std::size_t i = 0; i < optimizer->state().size(); ++i) {
    Tensor state = changed(optimizer->state()[i].second, shard_.zero > 0, Category::optimizer);
    state.backend().copy(state, optimizer_->state()[i].second);
  }
}

}  // namespace plangrad::parallel
