// What the kernels of causal attention share: where a head's rows stand, and the ways to compute.
// Not here: the kernels (attention_plain.cu, attention_flash.cu, attention_flash_backward.cu).
// Chapters 02 and 03.
#pragma once

#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

/// The rows of one head in one tensor.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t pitch;

  __device__ T* row(std::int64_t t) const { return data + t * pitch; }
};

/// Heads are numbered through the batch: head h of image b is b H + h, as in normalizer (B,H,T).
struct AttentionSizes {
  int batch, time, heads, size;
  float scale;  ///< 1 / sqrt(size)

  AttentionSizes(const Tensor& y, int heads);

  __host__ __device__ int all_heads() const { return batch * heads; }
  /// In x (B,T,parts C), for example queries, keys, values: parts 0, 1, 2 of 3.
  template <class T>
  __device__ HeadRows<T> rows(T* x, int parts, int part, int head) const {
    const std::int64_t pitch = std::int64_t{parts} * heads * size;
    return {x + head / heads * time * pitch + (part * heads + head % heads) * size, pitch};
  }
};

/// The tensors of attention, and those of its gradient; `dot` (B,H,T) is the sum over y dy.
struct Attended {
  const Tensor &qkv, &y, &normalizer;
};
struct AttentionGradient {
  const Tensor &qkv, &normalizer, &dot, &dy, &dqkv;
};

/// By tensor cores: bf16, heads of 16, 32, 48, ... 128 values at addresses that are multiples of 16
/// bytes. Shares of attention, and gradients of scores, are rounded to bf16 to be multiplied.
bool flash_fits(const AttentionSizes& sizes, std::initializer_list<Tensor> tensors);
void flash_attention(const CudaBackend& backend, const AttentionSizes& sizes, Attended x);
void flash_attention_backward(const CudaBackend& backend, const AttentionSizes& sizes,
                              AttentionGradient x);

/// Everything in f32: other types, sizes and addresses.
void plain_attention(const CudaBackend& backend, const AttentionSizes& sizes, Attended x);
void plain_attention_backward(const CudaBackend& backend, const AttentionSizes& sizes,
                              AttentionGradient x);

/// The sum or maximum over 2, 4, 8, 16 or 32 neighbouring lanes, in all of them.
template <int lanes>
__device__ float group_sum(float value) {
  PG_UNROLL
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(~0u, value, offset);
  return value;
}
template <int lanes>
__device__ float group_max(float value) {
  PG_UNROLL
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    value = max(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

}  // namespace paragrad::cuda
