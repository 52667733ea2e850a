// Products of column-major matrices, by oneDNN or a plain loop.
// Not here: speed; each product runs on the host thread that waits for it.
// cuBLAS library reference, gemm.
#include "cuda/emulator/product.h"

#include <algorithm>
#include <vector>

#include "autograd/error.h"
#include "cuda/emulator/cuda_bf16.h"
#include "cuda/emulator/observer.h"

#if PARAGRAD_ONEDNN
#include <dnnl.h>
#endif

namespace paragrad::cuda::emulator {

namespace {

void multiply_plainly(const Product& p, const float* a, const float* b, float* c) {
  for (int j = 0; j < p.n; ++j)
    for (int i = 0; i < p.m; ++i) {
      float sum = 0;
      for (int l = 0; l < p.k; ++l)
        sum += a[p.a.transposed ? l + std::size_t(i) * p.a.ld : i + std::size_t(l) * p.a.ld] *
               b[p.b.transposed ? j + std::size_t(l) * p.b.ld : l + std::size_t(j) * p.b.ld];
      float& out = c[i + std::size_t(j) * p.c.ld];
      out = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * out);
    }
}

/// oneDNN is row-major: for it, this is c^T = op(b)^T op(a)^T. With an empty inner sum, it would
/// leave c as it is.
void multiply(const Product& p, const float* a, const float* b, float* c) {
#if PARAGRAD_ONEDNN
  if (p.k == 0) return multiply_plainly(p, a, b, c);
  dnnl_status_t status = dnnl_sgemm(p.b.transposed ? 'T' : 'N', p.a.transposed ? 'T' : 'N', p.n,
                                    p.m, p.k, p.alpha, b, p.b.ld, a, p.a.ld, p.beta, c, p.c.ld);
  PG_CHECK(status == dnnl_success, "gemm: oneDNN refused with status ", status);
#else
  multiply_plainly(p, a, b, c);
#endif
}

/// A matrix in f32: itself, or widened into `copy`.
float* widen(const Matrices& x, int i, std::vector<float>& copy) {
  if (x.type == CUDA_R_32F) return static_cast<float*>(x.at(i));
  auto* narrow = static_cast<const __nv_bfloat16*>(x.at(i));
  copy.resize(x.span());
  std::transform(narrow, narrow + copy.size(), copy.begin(), __bfloat162float);
  return copy.data();
}

void note_columns(const Matrices& x, int batch, Use use) {
  for (int i = 0; observer && i < batch; ++i)
    for (int j = 0; j < x.columns; ++j)
      note(static_cast<std::byte*>(x.at(i)) + j * std::size_t(x.ld) * x.element_bytes(),
           x.rows * x.element_bytes(), use);
}

}  // namespace

void carry_out(const Product& p) {
  if (p.k > 0) note_columns(p.a, p.batch, reading);
  if (p.k > 0) note_columns(p.b, p.batch, reading);
  note_columns(p.c, p.batch, {.reads = p.beta != 0, .writes = true});
  if (observer) observer->multiplied(2.0 * p.m * p.n * p.k * p.batch);
  std::vector<float> a, b, c;
  for (int i = 0; i < p.batch; ++i) {
    float* result = widen(p.c, i, c);
    multiply(p, widen(p.a, i, a), widen(p.b, i, b), result);
    if (p.c.type == CUDA_R_32F) continue;
    auto* narrow = static_cast<__nv_bfloat16*>(p.c.at(i));
    for (int j = 0; j < p.n; ++j)  // between the columns, nothing is written
      std::transform(result + std::size_t(j) * p.c.ld, result + std::size_t(j) * p.c.ld + p.m,
                     narrow + std::size_t(j) * p.c.ld, __float2bfloat16);
  }
}

}  // namespace paragrad::cuda::emulator
