// The interface of causal attention's families of kernels, and the places of a head's rows.
// Not here: the kernels (attention.cu in f32; flash_forward.h, flash_backward.h by tensor cores).
// Chapters 02 and 03.
#pragma once

#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

/// The rows of one head in one tensor.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t pitch;

  __device__ T* row(std::int64_t t) const { return data + t * pitch; }
};

/// Sizes. Heads are numbered through the batch: head h of sequence b is b H + h, as in (B,H,T).
struct AttentionSizes {
  int batch, time, heads, size;
  float scale;  ///< 1 / sqrt(size)

  AttentionSizes(const Tensor& y, int heads);

  __host__ __device__ int all_heads() const { return batch * heads; }
  /// The rows of a head in x (B,T,parts C), for example queries, keys, values: parts 0, 1, 2 of 3.
  template <class T>
  __device__ HeadRows<T> rows(T* x, int parts, int part, int head) const {
    const std::int64_t pitch = std::int64_t{parts} * heads * size;
    return {x + head / heads * time * pitch + (part * heads + head % heads) * size, pitch};
  }
};

/// Whether tensor cores can compute it: bf16, heads of 16, 32, 48, ... 128 values at addresses that
/// are multiples of 16 bytes. They multiply shares of attention, and gradients of scores, rounded
/// to bf16. Otherwise, everything is computed in f32.
bool flash_fits(const AttentionSizes& sizes, std::initializer_list<Tensor> tensors);
void flash_attention(const CudaBackend& backend, const AttentionSizes& sizes, const Tensor& qkv,
                     const Tensor& y, const Tensor& normalizer);
void flash_attention_backward(const CudaBackend& backend, const AttentionSizes& sizes,
                              const Tensor& qkv, const Tensor& y, const Tensor& normalizer,
                              const Tensor& dy, const Tensor& dqkv);

/// Compute them by wgmma, for heads of this size on GPUs of compute capability 9.0.
constexpr int hopper_head = 64;
void hopper_attention(const CudaBackend& backend, const AttentionSizes& sizes, const Tensor& qkv,
                      const Tensor& y, const Tensor& normalizer);
void hopper_attention_backward(const CudaBackend& backend, const AttentionSizes& sizes,
                               const Tensor& qkv, const Tensor& y, const Tensor& normalizer,
                               const Tensor& dy, const Tensor& dqkv);

}  // namespace plangrad::cuda
