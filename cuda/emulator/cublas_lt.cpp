// The calls of cublasLt: they keep descriptions, choose an algorithm for one, and queue products
// only for the algorithm that was chosen for them.
// Not here: the checks of addresses, and the products (product.cpp).
// cuBLAS library reference, cublasLt.
#include <cublasLt.h>

#include <cstring>
#include <string>

#include "autograd/error.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/product.h"
#include "cuda/emulator/runtime.h"

struct cublasLtContext {
  int device;
};
struct cublasLtMatmulDescOpaque {
  std::int32_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int32_t bias_type = -1;
  bool tf32 = false;
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  int rows, columns;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct cublasLtMatmulPreferenceOpaque {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = 7;
  std::uint32_t alignments[4] = {256, 256, 256, 256};  // of A, B, C, D
};

using namespace plangrad::cuda::emulator;

namespace {

constexpr std::size_t split_bytes = 4096;  // that a split sum takes of the workspace

/// The algorithm's own meaning of its data.
struct Choice {
  std::uint64_t product, split, alignments[4], bias_alignment, unused;
};
static_assert(sizeof(Choice) == sizeof(cublasLtMatmulAlgo_t));

template <class T>
cublasStatus_t set(T& attribute, const void* value, std::size_t bytes) {
  if (!value || bytes != sizeof attribute) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

std::uint64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address & (~address + 1);
}

Matrices matrices(const char* name, const void* data, const cublasLtMatrixLayoutOpaque& x,
                  bool transposed) {
  return {name,     const_cast<void*>(data), x.type, int(x.ld), x.stride, transposed, x.rows,
          x.columns};
}

Product product_of(const cublasLtMatmulDescOpaque& o, const cublasLtMatrixLayoutOpaque& a,
                   const cublasLtMatrixLayoutOpaque& b, const cublasLtMatrixLayoutOpaque& d) {
  Product p{matrices("A", nullptr, a, o.transa == CUBLAS_OP_T),
            matrices("B", nullptr, b, o.transb == CUBLAS_OP_T),
            matrices("C", nullptr, d, false),
            d.rows,
            d.columns,
            o.transa == CUBLAS_OP_T ? a.rows : a.columns,
            d.batch,
            1,
            0};
  p.tf32 = o.tf32;
  const auto type = o.bias_type < 0 ? d.type : cudaDataType_t(o.bias_type);
  const int elements = o.epilogue == CUBLASLT_EPILOGUE_BIAS ? d.rows : 0;
  p.bias = {"the bias", o.bias, type, std::max(elements, 1), 0, false, elements, elements > 0};
  return p;
}

/// Whether the matrices fit each other, and the epilogue is one that a GPU has for them.
cublasStatus_t check(const cublasLtMatmulDescOpaque& o, const cublasLtMatrixLayoutOpaque& a,
                     const cublasLtMatrixLayoutOpaque& b, const cublasLtMatrixLayoutOpaque& d) {
  const bool ta = o.transa == CUBLAS_OP_T, tb = o.transb == CUBLAS_OP_T;
  const int k = ta ? a.rows : a.columns;
  if ((ta ? a.columns : a.rows) != d.rows || (tb ? b.rows : b.columns) != d.columns ||
      (tb ? b.columns : b.rows) != k || a.batch != d.batch || b.batch != d.batch || d.rows < 1 ||
      d.columns < 1 || d.batch < 1 || k < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (o.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  if (!o.bias) return CUBLAS_STATUS_INVALID_VALUE;
  if (o.bias_type >= 0 && o.bias_type != d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  return o.epilogue == CUBLASLT_EPILOGUE_BIAS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

std::uint64_t number_of(const Product& p) {
  std::string all;
  for (const Matrices* x : {&p.a, &p.b, &p.c, &p.bias})
    all += plangrad::autograd::text(x->type, ' ', x->ld, ' ', x->stride, ' ', x->transposed, ' ',
                                    x->rows, ' ', x->columns, ' ');
  return std::hash<std::string>()(all + plangrad::autograd::text(p.batch));
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = new cublasLtMatmulDescOpaque;
  (*made)->tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t o) { return destroy(o); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t o,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t bytes) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(o->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(o->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(o->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(o->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(o->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *made = new cublasLtMatrixLayoutOpaque{type, int(rows), int(columns), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t x) { return destroy(x); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t x,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, std::size_t bytes) {
  return which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(x->batch, value, bytes)
                                                     : set(x->stride, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t x) { return destroy(x); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t x,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t bytes) {
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(x->workspace, value, bytes);
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return set(x->reductions, value, bytes);
  return set(x->alignments[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                                              cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  if (!handle || wanted < 1 || C != D) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = check(*operation, *A, *B, *D)) return status;
  const Product p = product_of(*operation, *A, *B, *D);
  const bool split = is_split(p) && preference->workspace >= split_bytes;
  const std::uint64_t vector = std::min<std::uint64_t>(alignment_of(operation->bias), 16);
  Choice choice{number_of(p), split, {}, vector, 0};
  std::copy_n(preference->alignments, 4, choice.alignments);
  results[0] = {{}, split ? split_bytes : 0, CUBLAS_STATUS_SUCCESS, 1, {}};
  std::memcpy(&results[0].algo, &choice, sizeof choice);
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t layoutA,
                              const void* B, cublasLtMatrixLayout_t layoutB, const void* beta,
                              const void* C, cublasLtMatrixLayout_t layoutC, void* D,
                              cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t bytes, cudaStream_t stream) {
  if (!handle || handle->device != current_device()) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!algo || C != D || layoutC != layoutD) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = check(*operation, *layoutA, *layoutB, *layoutD)) return status;
  Product p = product_of(*operation, *layoutA, *layoutB, *layoutD);
  Choice choice;
  std::memcpy(&choice, algo, sizeof choice);
  if (choice.product != number_of(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const void* data[] = {A, B, C, D};
  for (int i = 0; i < 4; ++i)
    if (alignment_of(data[i]) < choice.alignments[i]) return CUBLAS_STATUS_INVALID_VALUE;
  if (operation->bias && alignment_of(operation->bias) < choice.bias_alignment)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (choice.split) {
    std::optional<Allocation> found = find_allocation(workspace);
    if (bytes < split_bytes || !found || found->device != handle->device || found->bytes < bytes ||
        alignment_of(workspace) < 16)
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  p.a.data = const_cast<void*>(A);
  p.b.data = const_cast<void*>(B);
  p.c.data = D;
  p.alpha = *static_cast<const float*>(alpha);
  p.beta = *static_cast<const float*>(beta);
  p.split = choice.split;
  return queue_product(stream, p);
}
