// A classifier's last product and its loss as one operation. Nobody else reads its logits, so their
// gradient takes their memory, and their rows may be wider than there are classes.
// Not here: the loss of logits that are tensors (autograd/ops.h: cross_entropy).
// Chapter 03.
#pragma once

#include "autograd/tensor.h"

namespace plangrad::autograd {

/// cross_entropy(linear(x, weight), targets)
/// shapes: x (...,In), weight (C,In), targets (...) of i32 -> (), in f32 where x is bf16
/// throws: Error as linear and cross_entropy do
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets);

}  // namespace plangrad::autograd
