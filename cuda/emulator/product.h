// A queued matrix product of cublasLt.
// Not here: its calls (cublas_lt.cpp).
// cuBLAS library reference, gemm.
#pragma once

#include <algorithm>

#include "cuda/emulator/cublasLt.h"

namespace plangrad::cuda::emulator {

/// A batch of matrices, `stride` elements apart.
struct Matrices {
  const char* name;
  void* data;
  cudaDataType_t type;
  int ld;
  long long stride;
  bool transposed;
  int rows, columns;  ///< sizes as the matrices lie in memory

  std::size_t element_bytes() const { return type == CUDA_R_32F ? 4 : 2; }
  /// The number of elements from the first to the last of one matrix.
  std::size_t span() const {
    return rows > 0 && columns > 0 ? std::size_t(ld) * (columns - 1) + rows : 0;
  }
  void* at(int i) const { return static_cast<std::byte*>(data) + i * stride * element_bytes(); }
};

struct Product {
  Matrices a, b, c;
  int m, n, k, batch;  ///< 1 at least
  float alpha, beta;
  Matrices bias{};     ///< one column, added to all columns of C; no rows: none
  bool split = false;  ///< the sum is, so that the product is two nodes of a graph
  bool tf32 = false;   ///< f32 operands are rounded to 10 bits of mantissa
};

/// Whether a GPU would split the product: its sums are long, and it has few results.
inline bool is_split(const Product& p) { return p.k > std::max(p.m, p.n); }

/// Checks the addresses as cublasLt does, and queues it: in a graph it is one node, or two if it is
/// split, as a GPU's products differ by shape, too. The stream belongs to the current device.
cublasStatus_t queue_product(cudaStream_t stream, const Product& product);
/// Begins misaligned_products() with 0.
void count_products_anew();

}  // namespace plangrad::cuda::emulator
