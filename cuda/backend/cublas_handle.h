// CublasHandle: cuBLAS on one device and stream; throws its errors as paragrad's Error.
// Not here: products (cuda/backend/gemm.cu). cuBLAS library reference, helper functions.
#pragma once

#include <cublas_v2.h>

#include <algorithm>

#include "cuda/backend/memory.h"

namespace paragrad::cuda {

/// Throws an Error that names the call, unless the call has succeeded.
inline void check(cublasStatus_t status, const char* call) {
  PG_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasGetStatusString(status));
}

/// cuBLAS for the device that is current when the handle is made, and whenever it is used.
///
/// Its workspace has the size that cuBLAS would give its own. It is ours for two reasons: all
/// handles have one of the same size, so that they choose the same kernels, whose sums have the
/// same bits; and in a graph cuBLAS would allocate one anew, so that the graph could not be
/// updated.
class CublasHandle {
 public:
  /// The allocator must outlive it.
  CublasHandle(cudaStream_t stream, CachingAllocator& allocator) : workspace_(allocator) {
    check(cublasCreate(&handle_.made), "cublasCreate");
    check(cublasSetStream(handle_, stream), "cublasSetStream");  // which forgets the workspace
    check(cublasSetWorkspace(handle_, workspace_.data, workspace_.bytes), "cublasSetWorkspace");
    // Otherwise parts of a sum may be rounded to bf16 before they are added.
    check(cublasSetMathMode(handle_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
          "cublasSetMathMode");
  }
  operator cublasHandle_t() const { return handle_; }

 private:
  struct Workspace {
    explicit Workspace(CachingAllocator& allocator)
        : allocator(allocator), data(allocator.allocate(bytes)) {}
    ~Workspace() { allocator.free(data, bytes); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    CachingAllocator& allocator;
    const std::int64_t bytes = usual_bytes();
    void* const data;
  };
  /// For the current device: the cuBLAS library reference, cublasSetWorkspace; and no more than a
  /// thousandth of its memory.
  static std::int64_t usual_bytes() {
    int device = 0;
    PG_CUDA(cudaGetDevice(&device));
    cudaDeviceProp properties;
    PG_CUDA(cudaGetDeviceProperties(&properties, device));
    const std::int64_t usual = std::int64_t{properties.major >= 9 ? 32 : 4} << 20;
    return std::min(usual, static_cast<std::int64_t>(properties.totalGlobalMem) / 1024);
  }

  Workspace workspace_;
  Handle<cublasHandle_t, cublasDestroy> handle_;  // ends first
};

}  // namespace paragrad::cuda
