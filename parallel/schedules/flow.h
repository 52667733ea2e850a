// Flow: the work of a rank on one of its stages, for schedules in which a rank has two.
// Not here: in which order a rank's flows take turns (zb_v.cpp, dual_pipe.cpp). Chapter 06.
#pragma once

#include <deque>

#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

/// Appends to a row what it is told, for one microbatch after another. After the last one it
/// appends nothing, so an order that is written for many microbatches fits fewer, too.
class Flow {
 public:
  /// `row` must outlive it.
  Flow(Row& row, int stage, std::vector<int> micros, int version)
      : row_(row), stage_(stage), version_(version), micros_(std::move(micros)) {}

  void forward() {
    if (forwards_ < micros_.size())
      row_.push_back(parallel::forward(stage_, micros_[forwards_++], version_));
  }
  void backward() {
    if (backwards_ < micros_.size())
      row_.push_back(parallel::backward(stage_, micros_[backwards_++], version_));
  }
  /// The input part of a backward. Its weight part follows on weight().
  void input() {
    if (backwards_ == micros_.size()) return;
    later_.push_back(micros_[backwards_]);
    row_.push_back(backward_part(Value::input_part, stage_, micros_[backwards_++], version_));
  }
  /// The first weight part that is left, if any is.
  void weight() {
    if (later_.empty()) return;
    row_.push_back(backward_part(Value::weight_part, stage_, later_.front(), version_));
    later_.pop_front();
  }
  bool has_weights() const { return !later_.empty(); }

 private:
  Row& row_;
  int stage_, version_;
  std::vector<int> micros_;
  std::size_t forwards_ = 0, backwards_ = 0;  // done
  std::deque<int> later_;                     // microbatches
};

}  // namespace plangrad::parallel
