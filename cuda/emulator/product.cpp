// Products of column-major matrices, by oneDNN or a plain loop.
// Not here: speed; each product runs on the host thread that waits for it.
// cuBLAS library reference, gemm.
#include "cuda/emulator/product.h"

#include <algorithm>
#include <vector>

#include "autograd/error.h"
#include "cuda/emulator/cuda_bf16.h"
#include "cuda/emulator/observer.h"

#if PLANGRAD_ONEDNN
#include <dnnl.h>
#endif

namespace plangrad::cuda::emulator {

namespace {

/// c = alpha op(a) op(b)
void multiply_plainly(const Product& p, const float* a, const float* b, float* c) {
  for (int j = 0; j < p.n; ++j)
    for (int i = 0; i < p.m; ++i) {
      float sum = 0;
      for (int l = 0; l < p.k; ++l)
        sum += a[p.a.transposed ? l + std::size_t(i) * p.a.ld : i + std::size_t(l) * p.a.ld] *
               b[p.b.transposed ? j + std::size_t(l) * p.b.ld : l + std::size_t(j) * p.b.ld];
      c[i + std::size_t(j) * p.c.ld] = p.alpha * sum;
    }
}

/// oneDNN is row-major: for it, this is c^T = op(b)^T op(a)^T. With an empty inner sum, it would
/// leave c as it is.
void multiply(const Product& p, const float* a, const float* b, float* c) {
#if PLANGRAD_ONEDNN
  if (p.k == 0) return multiply_plainly(p, a, b, c);
  dnnl_status_t status = dnnl_sgemm(p.b.transposed ? 'T' : 'N', p.a.transposed ? 'T' : 'N', p.n,
                                    p.m, p.k, p.alpha, b, p.b.ld, a, p.a.ld, 0, c, p.c.ld);
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

float number(float x) { return x; }
float number(__nv_bfloat16 x) { return __bfloat162float(x); }
void assign(float& x, float value) { x = value; }
void assign(__nv_bfloat16& x, float value) { x = __float2bfloat16(value); }

/// Adds what was there and the bias to complete sums, and rounds once.
template <class T>
void store(const Product& p, const std::vector<float>& sum, T* c) {
  const T* bias = p.bias_gradient ? nullptr : static_cast<const T*>(p.bias.data);
  for (int j = 0; j < p.n; ++j)
    for (int i = 0; i < p.m; ++i) {
      const std::size_t at = i + std::size_t(j) * p.c.ld;
      float value = sum[at];
      if (p.beta != 0) value += p.beta * number(c[at]);
      if (bias && p.bias.rows > 0) value += number(bias[i]);
      assign(c[at], value);
    }
}

/// The sums of the columns of op(b), which is transposed.
template <class T>
void store_bias_gradient(const Product& p, const float* b, T* bias) {
  for (int j = 0; j < p.n; ++j) {
    float sum = 0;
    for (int l = 0; l < p.k; ++l) sum += b[j + std::size_t(l) * p.b.ld];
    assign(bias[j], sum);
  }
}

/// Calls f with float or bf16.
template <class F>
void with_type(cudaDataType_t type, F f) {
  type == CUDA_R_32F ? f(float()) : f(__nv_bfloat16());
}

}  // namespace

void carry_out(const Product& p) {
  if (p.k > 0) note_columns(p.a, p.batch, reading);
  if (p.k > 0) note_columns(p.b, p.batch, reading);
  note_columns(p.c, p.batch, {.reads = p.beta != 0, .writes = true});
  if (observer) observer->multiplied(2.0 * p.m * p.n * p.k * p.batch);
  note_columns(p.bias, 1, {.reads = !p.bias_gradient, .writes = p.bias_gradient});
  std::vector<float> a, b, sum(p.c.span());
  for (int i = 0; i < p.batch; ++i) {
    const float* right = widen(p.b, i, b);
    multiply(p, widen(p.a, i, a), right, sum.data());
    with_type(p.c.type, [&]<class T>(T) {
      store(p, sum, static_cast<T*>(p.c.at(i)));
      if (p.bias_gradient) store_bias_gradient(p, right, static_cast<T*>(p.bias.data));
    });
  }
}

}  // namespace plangrad::cuda::emulator
