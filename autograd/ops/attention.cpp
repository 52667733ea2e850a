// Causal attention and the formulas of its gradient. The forward pass keeps its inputs, y and one
// number per row. Not here: the loops over blocks of queries (autograd/cpu/attention.cpp).
// Chapter 02.
#include "autograd/ops.h"

#include "autograd/backend.h"

namespace plangrad::autograd {

// [snippet attention]
// With P = softmax(S), S = Q K^T / sqrt(d), O = P V:
//   dV = P^T dO,  dP = dO V^T,  dS = P (dP - sum_k dO O),
//   dQ = dS K / sqrt(d),  dK = dS^T Q / sqrt(d)
// P is computed again from S and the logarithm of its normalizer, one number per row.
Tensor attention(const Tensor& qkv, int heads) {
  PG_CHECK(qkv.shape().rank() == 3 && heads > 0 && qkv.size(2) % (3 * heads) == 0,
           "attention: expected (B,T,3C) with C a multiple of ", heads, " heads, got ",
           qkv.shape());
  PG_CHECK(qkv.numel() > 0, "attention: ", qkv.shape(), " has no elements");
  std::int64_t batch = qkv.size(0), time = qkv.size(1), width = qkv.size(2) / 3;
  Tensor y = empty({batch, time, width}, qkv.dtype(), qkv.device());
  Tensor normalizer = empty({batch, heads, time}, statistic_dtype(qkv.dtype()), qkv.device());
  qkv.backend().attention(qkv, heads, y, normalizer);
  return record(y, "attention", qkv, [=](const Tensor& dy) {
    Tensor dqkv = empty_like(qkv);
    qkv.backend().attention_backward(qkv, heads, y, normalizer, dy, dqkv);
    return dqkv;
  });
}
// [end snippet]

}  // namespace plangrad::autograd
