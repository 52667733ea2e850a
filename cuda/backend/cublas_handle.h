// CublasHandle: cuBLAS on one device and stream; throws its errors as paragrad's Error.
// Not here: products (cuda/backend/gemm.cu). cuBLAS library reference, helper functions.
#pragma once

#include <cublas_v2.h>

#include "cuda/launch/runtime.h"

namespace paragrad::cuda {

/// Throws an Error that names the call, unless the call has succeeded.
inline void check(cublasStatus_t status, const char* call) {
  PG_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasGetStatusString(status));
}

/// cuBLAS for the device that is current when the handle is made, and whenever it is used.
struct CublasHandle : Handle<cublasHandle_t, cublasDestroy> {
  explicit CublasHandle(cudaStream_t stream) {
    check(cublasCreate(&made), "cublasCreate");
    check(cublasSetStream(made, stream), "cublasSetStream");
    // Otherwise parts of a sum may be rounded to bf16 before they are added.
    check(cublasSetMathMode(made, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
          "cublasSetMathMode");
  }
};

}  // namespace paragrad::cuda
