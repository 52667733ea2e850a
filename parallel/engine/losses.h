// Losses: those of a plan's microbatches, which stay on the device until somebody needs them.
// Not here: what they are for (norms.h, session/).
// Chapter 05.
#pragma once

#include <map>
#include <vector>

#include "autograd/tensor.h"

namespace paragrad::parallel {

using namespace autograd;

class Losses {
 public:
  /// `losses`: by microbatch; read() fills it in. `most`: unread ones, at most a step's.
  Losses(std::map<int, double>& losses, int most) : losses_(losses), most_(most) {}

  /// Keeps a loss that is read later: a device would have to be waited for in each forward.
  void keep(int micro, const Tensor& loss);
  void read();

 private:
  std::map<int, double>& losses_;
  int most_;
  Tensor values_;            // of unread_
  std::vector<int> unread_;  // microbatches
};

}  // namespace paragrad::parallel
