// Accuracy: how often a model is right, which evaluations may count beside the loss.
// Not here: the loss (autograd/ops.h: cross_entropy). Chapter 06.
#pragma once

#include "autograd/tensor.h"

namespace plangrad::parallel {

/// The share of rows whose largest logit is the target's.
/// shapes: logits (...,C), targets (...)
double accuracy_of(const autograd::Tensor& logits, const autograd::Tensor& targets);

}  // namespace plangrad::parallel
