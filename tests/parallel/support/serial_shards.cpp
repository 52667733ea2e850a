// What shards add to the serial interpreter. Every rank has whole buffers; what it would not have
// of them is NaN, so that using it shows. Chapter 09.
#include <limits>

#include "tests/parallel/support/serial.h"

namespace plangrad::parallel {

/// Elements of a rank's shard; all of them in a plan that is not sharded.
Range Serial::own(const Rank& rank, int stage) const {
  return rank.shards.at(stage).range(parameters(rank, stage).numel());
}

/// A copy of which only the shard is left.
Tensor Serial::only_own(const Rank& rank, int stage, const Tensor& whole) const {
  auto [begin, end] = own(rank, stage);
  Tensor result =
      full(whole.shape(), std::numeric_limits<double>::quiet_NaN(), whole.dtype(), device_);
  result.backend().copy(whole.window(begin, {end - begin}), result.window(begin, {end - begin}));
  return result;
}

void Serial::drop(Rank& rank, const Instruction& x) {
  if (x.what == Value::activation) rank.runners.at(x.stage).drop(x.micro);
  if (x.what != Value::weights) return;  // a sum has been cut by its reduction
  auto weights = rank.weights.find({x.stage, x.version});
  if (plan_->sharded > 0)
    weights->second = only_own(rank, x.stage, weights->second);
  else
    rank.weights.erase(weights);  // a copy that was sent
}

/// Every member gets a buffer with all members' shards.
void Serial::gather(const Instruction& x, const std::vector<int>& group) {
  const std::pair name(x.stage, x.version);
  Tensor whole = empty_like(ranks_[group.front()].weights.at(name));
  for (int rank : group) {
    auto [begin, end] = own(ranks_[rank], x.stage);
    Tensor shard = ranks_[rank].weights.at(name).window(begin, {end - begin});
    whole.backend().copy(shard, whole.window(begin, {end - begin}));
  }
  for (int rank : group) ranks_[rank].weights.at(name) = whole;
}

/// The rank's finished sum. One that went from rank to rank is there where it was finished and, in
/// a plan with homes, where it has arrived.
const Tensor* Serial::finished_sum(const Rank& rank, int stage, int version) const {
  auto arrived = rank.values.find({Value::gradient_sum, stage, plan_->last_micro_of(version)});
  if (!plan_->home.empty() && arrived != rank.values.end()) return &arrived->second;
  auto own = rank.sums.find({stage, version});
  return own == rank.sums.end() ? nullptr : &own->second;
}

/// Replicas of a stage count the same squares, so that one of them does. Shards add up.
void Serial::add_squares(const Instruction& x, const std::vector<int>& group) {
  std::vector<double> squares(training_.whole.size(), 0);
  for (int rank : group)
    for (const auto& [stage, optimizer] : ranks_[rank].optimizers) {
      const Tensor* whole = finished_sum(ranks_[rank], stage, x.version);
      if (!whole) continue;
      auto [begin, end] = own(ranks_[rank], stage);
      const ParameterList list = parameters(ranks_[rank], stage).part(begin, end);
      const std::vector<double> sums = sums_of_squares(list, whole->window(begin, {end - begin}));
      const std::vector<std::size_t> at = places(list, training_.whole);
      for (std::size_t i = 0; i < sums.size(); ++i)
        squares[at[i]] = plan_->sharded > 0 ? squares[at[i]] + sums[i] : sums[i];
    }
  double total = 0;
  for (double square : squares) total += square;
  norms_[x.version] = std::sqrt(total) / plan_->per_step;
}

}  // namespace plangrad::parallel
