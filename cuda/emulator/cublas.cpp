// The calls of cuBLAS: they translate their arguments.
// Not here: the checks of operands (product_queue.cpp), and the products themselves (product.cpp).
// cuBLAS library reference.
#include "cuda/emulator/cublas_v2.h"

#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/product.h"
#include "cuda/emulator/runtime.h"

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
};

using namespace plangrad::cuda::emulator;

namespace {

cublasStatus_t run(cublasHandle_t handle, Product p) {
  if (!handle || handle->device != current_device()) return CUBLAS_STATUS_NOT_INITIALIZED;
  p.split = is_split(p);
  return queue_product(handle->stream, p);
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  std::optional<Allocation> found = find_allocation(workspace);
  return found && found->device == handle->device && found->bytes >= bytes
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k,
                                          const void* alpha, const void* A, cudaDataType_t Atype,
                                          int lda, long long strideA, const void* B,
                                          cudaDataType_t Btype, int ldb, long long strideB,
                                          const void* beta, void* C, cudaDataType_t Ctype, int ldc,
                                          long long strideC, int batchCount, cublasComputeType_t,
                                          cublasGemmAlgo_t) {
  bool ta = transa == CUBLAS_OP_T, tb = transb == CUBLAS_OP_T;
  Matrices a{"A", const_cast<void*>(A), Atype, lda, strideA, ta, ta ? k : m, ta ? m : k};
  Matrices b{"B", const_cast<void*>(B), Btype, ldb, strideB, tb, tb ? n : k, tb ? k : n};
  Matrices c{"C", C, Ctype, ldc, strideC, false, m, n};
  return run(handle, {a, b, c, m, n, k, batchCount, *static_cast<const float*>(alpha),
                      *static_cast<const float*>(beta)});
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void* alpha,
                            const void* A, cudaDataType_t Atype, int lda, const void* B,
                            cudaDataType_t Btype, int ldb, const void* beta, void* C,
                            cudaDataType_t Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B,
                                    Btype, ldb, 0, beta, C, Ctype, ldc, 0, 1, computeType, algo);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k,
                                         const float* alpha, const float* A, int lda,
                                         long long strideA, const float* B, int ldb,
                                         long long strideB, const float* beta, float* C, int ldc,
                                         long long strideC, int batchCount) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, CUDA_R_32F, lda,
                                    strideA, B, CUDA_R_32F, ldb, strideB, beta, C, CUDA_R_32F, ldc,
                                    strideC, batchCount, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float* alpha,
                           const float* A, int lda, const float* B, int ldb, const float* beta,
                           float* C, int ldc) {
  return cublasSgemmStridedBatched(handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0,
                                   beta, C, ldc, 0, 1);
}
