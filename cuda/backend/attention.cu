// Causal attention: which kernels compute it.
// Not here: these kernels (cuda/backend/attention.h lists them).
// Chapter 03; Dao et al. 2022, "FlashAttention", section B.4 for the sum over y dy.
#include "cuda/backend/attention.h"

#include <algorithm>
#include <cmath>

namespace paragrad::cuda {

namespace {

constexpr int warps = 8;

/// A warp for each row of each head.
template <class T>
__global__ void __launch_bounds__(32 * warps)
    dot_kernel(AttentionSizes s, const T* y, const T* dy, float* dot) {
  const std::int64_t i = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (i >= std::int64_t{s.all_heads()} * s.time) return;  // all of the warp
  const int head = static_cast<int>(i / s.time), t = static_cast<int>(i % s.time);
  const T *row = s.rows(y, 1, 0, head).row(t), *gradient = s.rows(dy, 1, 0, head).row(t);
  float sum = 0;
  for (int c = threadIdx.x % 32; c < s.size; c += 32)
    sum += to_float(row[c]) * to_float(gradient[c]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) dot[i] = sum;
}

}  // namespace

AttentionSizes::AttentionSizes(const Tensor& y, int heads)
    : batch(static_cast<int>(y.size(0))),
      time(static_cast<int>(y.size(1))),
      heads(heads),
      size(static_cast<int>(y.size(2) / heads)),
      scale(static_cast<float>(1 / std::sqrt(static_cast<double>(size)))) {}

bool flash_fits(const AttentionSizes& sizes, std::initializer_list<Tensor> tensors) {
  if (sizes.size % 16 != 0 || sizes.size > 128) return false;
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& x) {
    return x.dtype() == DType::bf16 && aligned<8>(x.data<__nv_bfloat16>());
  });
}

void CudaBackend::attention(In qkv, int heads, Out y, Out normalizer) {
  refuse_f64(qkv);
  const AttentionSizes sizes(y, heads);
  const bool flash = flash_fits(sizes, {qkv, y});
  (flash ? flash_attention : plain_attention)(*this, sizes, {qkv, y, normalizer});
}

void CudaBackend::attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) {
  const AttentionSizes sizes(y, heads);
  const Tensor dot = workspace(normalizer.shape(), DType::f32, y.device());
  dispatch(qkv, [&]<class T>() {
    run(dot_kernel<T>, dim3(blocks_for(dot.numel(), warps)), dim3(32 * warps), sizes, y, dy, dot);
  });
  const bool flash = flash_fits(sizes, {qkv, dy, dqkv});
  (flash ? flash_attention_backward : plain_attention_backward)(*this, sizes,
                                                                {qkv, normalizer, dot, dy, dqkv});
}

}  // namespace paragrad::cuda
