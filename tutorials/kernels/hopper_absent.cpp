// The stand-in for matmul_12_hopper.cu where it can't be compiled: the emulator has no TMA, and
// nvcc has what the file needs of the runtime since 12.5.
// Chapter 12.
#include "cuda/launch/runtime.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

const char* const hopper_is_absent =
    "tutorials/kernels/matmul_12_hopper.cu needs TMA, which the emulator lacks, and nvcc 12.5 or "
    "later";

void matmul_hopper(const ProductOf<__nv_bfloat16>&, cudaStream_t) {
  PG_CHECK(false, hopper_is_absent, "; use matmul_block_order");
}

}  // namespace plangrad::cuda::kernels
