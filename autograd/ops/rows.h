// Operations on rows: softmax, layer norm, cross-entropy, embedding.
// Not here: attention, which has a file of its own.
// Chapter 02.
#pragma once

#include "autograd/graph.h"

namespace paragrad::autograd {

/// exp(x) / sum exp(x) along the last dimension.
Tensor softmax(const Tensor& x);

/// (x - mean) / sqrt(variance + epsilon) * weight + bias along the last dimension.
/// shapes: x (...,C), weight (C), bias (C) -> (...,C)
/// source: Ba, Kiros and Hinton 2016, eq. 4
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon = 1e-5);

/// Softmax cross-entropy; probabilities are never stored.
///   loss = mean_r (log sum_c exp(logits[r,c]) - logits[r,target[r]])
/// shapes: logits (...,C), targets (...) of i32 -> (), in f32 where logits are bf16
/// units:  nats, mean over the rows
/// throws: Error if a target is outside [0,C)
/// source: Bishop 2006, eq. 4.108
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

/// Row ids[r] of the table, for each r.
/// shapes: table (V,C), ids (...) of i32 -> (...,C)
/// throws: Error if an id is outside [0,V)
Tensor embedding(const Tensor& table, const Tensor& ids);

}  // namespace paragrad::autograd
