// The optimizer's moments belong to the newest version: they have no older copies (PipeDream-2BW,
// section 3.1).
// Not here: when a version dies (lifetimes.h), and how shards come together (interpreter.cpp).
// Chapters 07, 09 and 11.
#include "parallel/engine/weight_store.h"

namespace paragrad::parallel {

void WeightStore::find_shard(const Training& training) {
  range_ = shard_.range(parameters().numel());
  own_parameters_ = parameters().part(range_.begin, range_.end);
  own_places_ = nn::places(own_parameters_, training.whole);
}

WeightStore::WeightStore(const Training& training, StateFormPtr form, int version,
                         const DevicePtr& device, const Shard& shard)
    : StageBuffers(training, std::move(form), device), shard_(shard) {
  find_shard(training);
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
    Tensor copy = flat(Category::weights, dtype_, values.numel());
    values.backend().copy(values, copy);
    versions.emplace(version - 1, copy);
  }
}

void WeightStore::release(int version) {
  shards_.erase(version);
  StageBuffers::release(version);
}

void WeightStore::cut_sum(int version) {
  Tensor& sum = sums_.at(version);
  Tensor shard = flat(Category::gradients, sum.dtype(), range_.size());
  shard.backend().copy(own(sum), shard);
  sum = shard;
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
  const Tensor& newest = versions().rbegin()->second;
  remembered_ = flat(Category::weights, dtype_, newest.numel());
  newest.backend().copy(newest, remembered_);
}

void WeightStore::rewind(const Training& training) {
  PG_CHECK(remembered_.defined() && sums_.empty(), "weights can be rewound between plans, and to ",
           "values that were remembered");
  for (auto& [version, values] : own_versions()) values.backend().copy(remembered_, values);
  forget_expanded();
  optimizer_ = training.optimizer(own_parameters_, own(versions().rbegin()->second));
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
    const Tensor state =
        changed(optimizer->state()[i].second, shard_.zero > 0, Category::optimizer);
    state.backend().copy(state, optimizer_->state()[i].second);
  }
}

}  // namespace paragrad::parallel
