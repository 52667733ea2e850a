// FactoredRun: one member's sum of a stage by thin factors: two collectives, and the phases of a
// LowRank around them.
// Not here: the factors (low_rank.h). Chapter 10; Vogels et al. 2019 (PowerSGD).
#pragma once

#include <functional>

#include "parallel/codecs/low_rank.h"
#include "parallel/collectives/collective_run.h"

namespace paragrad::parallel {

class FactoredRun : public GroupRun {
 public:
  /// How a buffer is summed, in place.
  using Sum = std::function<std::shared_ptr<CollectiveRun>(const Tensor& buffer)>;

  /// `low_rank` must outlive it; `gradient` (N) becomes what stands for the sum towards `version`.
  FactoredRun(LowRank& low_rank, Tensor gradient, int version, Sum sum)
      : low_rank_(low_rank),
        gradient_(std::move(gradient)),
        version_(version),
        sum_(std::move(sum)) {}

  // [snippet advance]
  bool advance(Transport& transport) override {
    if (!first_) first_ = sum_(low_rank_.first_factors(gradient_, version_));
    if (!first_->advance(transport)) return false;
    if (!second_) {
      Tensor factors = low_rank_.second_factors();
      second_ = sum_(factors.defined() ? factors : gradient_.window(0, {0}));
    }
    if (!second_->advance(transport)) return false;
    low_rank_.finish(gradient_);
    return true;
  }
  // [end snippet]

  std::int64_t bytes_sent() const override { return first_->bytes_sent() + second_->bytes_sent(); }

 private:
  LowRank& low_rank_;
  Tensor gradient_;
  int version_;
  Sum sum_;
  std::shared_ptr<CollectiveRun> first_, second_;
};

}  // namespace paragrad::parallel
