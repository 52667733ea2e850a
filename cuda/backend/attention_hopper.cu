// Attention and its gradient for heads of 64 values, by the instructions that GPUs of compute
// capability 9.0 have. Its device code compiles for sm_90a only.
// Not here: the kernels (flash_forward.h, flash_backward.h); their products (flash_hopper.h).
// Chapter 12.
#include "cuda/backend/flash_backward.h"
#include "cuda/backend/flash_forward.h"
#include "cuda/backend/flash_hopper.h"

namespace plangrad::cuda {

void hopper_attention(const CudaBackend& backend, const AttentionSizes& s, const Tensor& qkv,
                      const Tensor& y, const Tensor& normalizer) {
  run_flash<GroupProducts, hopper_head>(backend, s, qkv, y, normalizer);
}

void hopper_attention_backward(const CudaBackend& backend, const AttentionSizes& s,
                               const Tensor& qkv, const Tensor& y, const Tensor& normalizer,
                               const Tensor& dy, const Tensor& dqkv) {
  run_flash_backward<GroupProducts, hopper_head>(backend, s, qkv, y, normalizer, dy, dqkv);
}

}  // namespace plangrad::cuda
