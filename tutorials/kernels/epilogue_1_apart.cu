// Product with bias and GELU, rung 1: rung 10 of the product, then a second kernel, which reads c
// and writes it once more.
// Not here: a product that does so itself, which is the next rung.
// Hendrycks and Gimpel 2016, "Gaussian Error Linear Units" (the formula with tanh).
#include "cuda/launch/device.h"
#include "tutorials/kernels/gelu.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    bias_gelu_kernel(float* c, const __nv_bfloat16* bias, int m, int n) {
  const int i = blockIdx.x * threads + threadIdx.x;
  if (i < m * n) c[i] = gelu(c[i] + __bfloat162float(bias[i % n]));
}

}  // namespace

void epilogue_apart(const Epilogue& e, cudaStream_t stream) {
  const auto& p = e.product;
  matmul_stages(p, stream);
  launch(bias_gelu_kernel, dim3(blocks_for(std::size_t(p.m) * p.n, threads)), dim3(threads), 0,
         stream, p.c, e.bias, p.m, p.n);
}

}  // namespace plangrad::cuda::kernels
