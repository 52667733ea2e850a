// Attention by tensor cores, and its gradient: calls the kernels for the size of a head.
// Not here: the kernels (flash_forward.h, flash_backward.h); those with Hopper's own instructions
// (attention_hopper.cu). Chapter 03.
#include "cuda/backend/flash_backward.h"
#include "cuda/backend/flash_forward.h"

namespace plangrad::cuda {

namespace {

/// Calls `kernel.template operator()<D>()` with the size of a head.
template <int D = 16, class Kernel>
void dispatch_head(int size, Kernel&& kernel) {
  if constexpr (D < 128)
    if (size != D) return dispatch_head<D + 16>(size, kernel);
  kernel.template operator()<D>();
}

/// Whether the GPU has the instructions of attention_hopper.cu, which takes one size of heads.
bool takes_hopper(const CudaBackend& backend, int size) {
  int major = 0;
  PG_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, backend.ordinal()));
  return major == 9 && size == hopper_head;
}

}  // namespace

void flash_attention(const CudaBackend& backend, const AttentionSizes& s, const Tensor& qkv,
                     const Tensor& y, const Tensor& normalizer) {
  if (takes_hopper(backend, s.size)) return hopper_attention(backend, s, qkv, y, normalizer);
  dispatch_head(s.size,
                [&]<int D>() { run_flash<WarpProducts, D>(backend, s, qkv, y, normalizer); });
}

void flash_attention_backward(const CudaBackend& backend, const AttentionSizes& s,
                              const Tensor& qkv, const Tensor& y, const Tensor& normalizer,
                              const Tensor& dy, const Tensor& dqkv) {
  if (takes_hopper(backend, s.size))
    return hopper_attention_backward(backend, s, qkv, y, normalizer, dy, dqkv);
  dispatch_head(s.size, [&]<int D>() {
    run_flash_backward<WarpProducts, D>(backend, s, qkv, y, normalizer, dy, dqkv);
  });
}

}  // namespace plangrad::cuda
