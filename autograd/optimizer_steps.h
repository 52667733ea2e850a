// The arguments of an optimizer's kernels: which elements they step, and by which numbers.
// Not here: the kernels (autograd/kernels.h), optimizers with their state (nn/optimizers).
// Chapter 02.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace plangrad::autograd {

/// Elements [first, last) of flat buffers, which an optimizer's step treats alike.
struct Segment {
  std::int64_t first, last;
  bool decays = true;
};
using Segments = std::vector<Segment>;

/// One step of SGD with momentum (Sutskever et al. 2013, in PyTorch's form).
struct SgdStep {
  double learning_rate = 0.1, momentum = 0.9, weight_decay = 0;
  double gradient_scale = 1;  ///< multiplies every gradient: clipping, averaging
};

/// One step of AdamW (Loshchilov and Hutter 2019, algorithm 2).
struct AdamWStep {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double gradient_scale = 1;  ///< multiplies every gradient: clipping, averaging
  std::int64_t step = 1;      ///< counted from 1, for the bias correction

  // Factors of the kernel's update:  w <- shrink w - rate m / (sqrt(v) correction + epsilon)
  double shrink() const { return 1 - learning_rate * weight_decay; }
  double rate() const { return learning_rate / (1 - std::pow(beta1, static_cast<double>(step))); }
  double correction() const {
    return 1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(step)));
  }
};

}  // namespace plangrad::autograd
