// Causal self-attention as one operation, which never holds a T x T matrix for each head.
// Not here: the projections before and after it (nn/models/gpt.h).
// Chapter 02; Vaswani et al. 2017, Dao et al. 2022 (FlashAttention).
#pragma once

#include "autograd/graph.h"

namespace paragrad::autograd {

/// For each head: softmax(Q K^T / sqrt(C / heads), over positions up to the query's own) V.
/// shapes: qkv (B,T,3C): queries, keys, values side by side, each cut into heads -> (B,T,C)
/// throws: Error if 3 * heads does not divide qkv's width
/// source: Vaswani et al. 2017, eq. 1
Tensor attention(const Tensor& qkv, int heads);

}  // namespace paragrad::autograd
