// Matrix products by cuBLAS, which stores matrices by columns: its product
// c^T = op(b)^T op(a)^T is our c = op(a) op(b), which is stored by rows.
// Not here: sparse products (sparse_matmul.cu), and attention's products.
// Chapter 03; cuBLAS library reference, gemm.
#include <algorithm>
#include <limits>

#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

namespace {

/// c[r,i] = bias[i], or c[r,i] += bias[i]; rows of `width` packs of N elements.
template <int N, class T, class U>
__device__ void add_bias_pack(std::int64_t i, std::int64_t width, const T* bias, bool add, U* c) {
  const auto b = load<Pack<T, N>>(bias + i % width * N);
  const auto before = add ? load<Pack<U, N>>(c + i * N) : Pack<U, N>{};
  store(c + i * N, pack<U, N>([&](int j) {
          return add ? to_float(before.at[j]) + to_float(b.at[j]) : to_float(b.at[j]);
        }));
}

template <class T, class U>
void add_bias(const CudaBackend& backend, const Tensor& bias, bool add, const Tensor& c) {
  constexpr int n = pack_size<U>;
  const std::int64_t width = bias.numel(), count = c.numel();
  if (width % n == 0 && aligned<n>(bias.data<T>()) && aligned<n>(c.data<U>()))
    backend.run_each<add_bias_pack<n, T, U>>(count / n, width / n, bias, add, c);
  else
    backend.run_each<add_bias_pack<1, T, U>>(count, width, bias, add, c);
}

/// A batch of matrices in the form that cuBLAS takes.                            x (B,rows,columns)
struct Operand {
  const void* data;
  cudaDataType_t type;
  cublasOperation_t operation;
  int pitch;
  long long stride;

  Operand(const Tensor& x, bool transposed)
      : data(x.raw()),
        type(x.dtype() == DType::f32 ? CUDA_R_32F : CUDA_R_16BF),
        operation(transposed ? CUBLAS_OP_T : CUBLAS_OP_N),
        pitch(static_cast<int>(std::max<std::int64_t>(x.size(2), 1))),
        stride(x.size(1) * x.size(2)) {}
};

}  // namespace

// Writes the bias first and adds the product to it, so that results are rounded once. Only bf16
// results with both `add` and a bias are rounded twice.
void CudaBackend::gemm(Gemm how, In a, In b, In bias, Out c) {
  refuse_f64(a);
  refuse_f64(c);
  PG_CHECK(c.dtype() == a.dtype() || c.dtype() == DType::f32, "gemm: a is ", a, ", c is ", c,
           "; expected c in a's type, or in f32 for bf16");
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const std::int64_t batch = c.size(0), m = c.size(1), n = c.size(2);
  const std::int64_t k = a.size(how.transpose_a ? 1 : 2);
  PG_CHECK(std::max({batch, m, n, k}) <= most, "gemm: a size is 2^31 or more: ", a, " and ", b);
  if (c.numel() == 0) return;
  if (bias.defined())
    dispatch(a, [&]<class T>() {
      dispatch(c, [&]<class U>() { add_bias<T, U>(*this, bias, how.add, c); });
    });
  use();
  const Operand left(b, how.transpose_b), right(a, how.transpose_a), result(c, false);
  const float one = 1, kept = how.add || bias.defined() ? 1 : 0;
  check(cublasGemmStridedBatchedEx(
            cublas(), left.operation, right.operation, static_cast<int>(n), static_cast<int>(m),
            static_cast<int>(k), &one, left.data, left.type, left.pitch, left.stride, right.data,
            right.type, right.pitch, right.stride, &kept, c.raw(), result.type, result.pitch,
            result.stride, static_cast<int>(batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

}  // namespace paragrad::cuda
