// CublasHandle: cuBLAS on one device and stream, and its errors thrown as paragrad's.
// Not here: products (cuda/backend/gemm.cu).
// cuBLAS library reference, helper functions.
#pragma once

#include <cublas_v2.h>

#include "autograd/error.h"

namespace paragrad::cuda {

/// Throws an Error that names the call, unless it has succeeded.
inline void check(cublasStatus_t status, const char* call) {
  PG_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasGetStatusString(status));
}

/// Of the device that is current when it is made, and whenever it is used.
class CublasHandle {
 public:
  explicit CublasHandle(cudaStream_t stream) {
    check(cublasCreate(&handle_), "cublasCreate");
    check(cublasSetStream(handle_, stream), "cublasSetStream");
    // Parts of a sum may else be rounded to bf16 before they are added up.
    check(cublasSetMathMode(handle_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
          "cublasSetMathMode");
  }
  ~CublasHandle() { cublasDestroy(handle_); }
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;

  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace paragrad::cuda
