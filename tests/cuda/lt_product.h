// A matrix product by cublasLt, for tests of the emulator and benchmarks.
// Not here: the backend's products, which keep what cublasLt chooses (cuda/backend/gemm.cu).
// cuBLAS library reference, cublasLt.
#pragma once

#include <cublasLt.h>

#include <cstdint>

#include "cuda/launch/runtime.h"

namespace plangrad::tests {

/// c = a b by columns; c is in f32.                                    a (m,k), b (k,n), c (m,n)
struct LtSizes {
  int m, n, k;
  cudaDataType_t type = CUDA_R_32F;  ///< of a and b
  int lda = m, ldb = k, ldc = m;     ///< elements from column to column
  std::int32_t batch = 1;
  std::int64_t stride = 0;  ///< elements from matrix to matrix, of each of the three
};

/// A product and what it is described by; calls return cublasLt's status.
struct LtProduct {
  cuda::Handle<cublasLtHandle_t, cublasLtDestroy> handle;
  cuda::Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation;
  cuda::Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a, b, c;
  cuda::Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  cublasLtMatmulHeuristicResult_t found{};

  explicit LtProduct(const LtSizes& s) {
    cublasLtCreate(&handle.made);
    cublasLtMatmulDescCreate(&operation.made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a.made, s.type, s.m, s.k, s.lda);
    cublasLtMatrixLayoutCreate(&b.made, s.type, s.k, s.n, s.ldb);
    cublasLtMatrixLayoutCreate(&c.made, CUDA_R_32F, s.m, s.n, s.ldc);
    for (cublasLtMatrixLayout_t x : {a.made, b.made, c.made}) {
      cublasLtMatrixLayoutSetAttribute(x, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &s.batch,
                                       sizeof s.batch);
      cublasLtMatrixLayoutSetAttribute(x, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s.stride,
                                       sizeof s.stride);
    }
    cublasLtMatmulPreferenceCreate(&preference.made);
  }

  template <class Value>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t which, Value value) {
    return cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value);
  }
  template <class Value>
  cublasStatus_t prefer(cublasLtMatmulPreferenceAttributes_t which, Value value) {
    return cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value);
  }
  /// Has cublasLt choose an algorithm, with which products are then queued.
  cublasStatus_t choose() {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, preference, 1, &found,
                                          &count);
  }
  /// Queues C = A B + beta C.
  cublasStatus_t queue(const void* A, const void* B, void* C, cudaStream_t stream = nullptr,
                       float beta = 0, void* workspace = nullptr, std::size_t bytes = 0) {
    const float one = 1;
    return cublasLtMatmul(handle, operation, &one, A, a, B, b, &beta, C, c, C, c, &found.algo,
                          workspace, bytes, stream);
  }
};

}  // namespace plangrad::tests
