// Describes products to cublasLt, and keeps the algorithm that it chooses for each form.
// Not here: reasons (products.h).
// cuBLAS library reference, cublasLtMatmul and cublasLtMatmulAlgoGetHeuristic.
#include "cuda/backend/products.h"

#include <algorithm>

namespace plangrad::cuda {

namespace {

/// Throws an Error that names the call, unless the call has succeeded.
void check(cublasStatus_t status, const char* call) {
  PG_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasLtGetStatusString(status));
}

#define PG_CUBLAS(call) check(call, #call)

template <class Attribute, class Value>
void set(cublasLtMatmulDesc_t operation, Attribute which, Value value) {
  PG_CUBLAS(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value));
}

/// The size that cuBLAS would give its own workspace (the cuBLAS library reference,
/// cublasSetWorkspace), but no more than a thousandth of the current device's memory.
std::int64_t workspace_bytes() {
  int device = 0;
  PG_CUDA(cudaGetDevice(&device));
  cudaDeviceProp properties;
  PG_CUDA(cudaGetDeviceProperties(&properties, device));
  const std::int64_t usual = std::int64_t{properties.major >= 9 ? 32 : 4} << 20;
  return std::min(usual, static_cast<std::int64_t>(properties.totalGlobalMem) / 1024);
}

struct Layout : Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> {
  Layout(const ProductOperand::Form& x, std::int32_t batch) {
    PG_CUBLAS(cublasLtMatrixLayoutCreate(&made, x.type, x.rows, x.columns, x.pitch));
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x.stride);
  }
  template <class Value>
  void set(cublasLtMatrixLayoutAttribute_t which, Value value) {
    PG_CUBLAS(cublasLtMatrixLayoutSetAttribute(made, which, &value, sizeof value));
  }
};

struct Preference : Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> {
  Preference() { PG_CUBLAS(cublasLtMatmulPreferenceCreate(&made)); }
  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t which, Value value) {
    PG_CUBLAS(cublasLtMatmulPreferenceSetAttribute(made, which, &value, sizeof value));
  }
};

}  // namespace

std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 16;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

struct Products::Plan {
  Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation;
  Layout left, right, result;
  std::optional<cublasLtMatmulAlgo_t> algorithm;

  explicit Plan(const Key& key)
      : left(std::get<0>(key), std::get<3>(key)),
        right(std::get<1>(key), std::get<3>(key)),
        result(std::get<2>(key), std::get<3>(key)) {
    auto operation_on = [](const Form& x) {
      return static_cast<std::int32_t>(x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    PG_CUBLAS(cublasLtMatmulDescCreate(&operation.made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, operation_on(std::get<0>(key)));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, operation_on(std::get<1>(key)));
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(std::get<4>(key)));
  }
};

Products::Products(CachingAllocator& allocator)
    : allocator_(allocator), bytes_(workspace_bytes()), workspace_(allocator.allocate(bytes_)) {
  PG_CUBLAS(cublasLtCreate(&handle_.made));
}

Products::~Products() { allocator_.free(workspace_, bytes_); }

/// The algorithm that cublasLt expects to be fastest for operands that are aligned so.
std::optional<cublasLtMatmulAlgo_t> Products::choose(const Key& key, const Plan& plan) const {
  const auto& [left, right, result, batch, use, vector_alignment] = key;
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(bytes_));
  // Otherwise parts of a sum may be rounded to bf16 before they are added.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, left.alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, right.alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result.alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result.alignment);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.left, plan.right, plan.result,
                                     plan.result, preference, 1, &found, &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return found.algo;
}

/// The plan of a form, with the vector's address: where it lies counts for the choice, too.
Products::Plan& Products::plan(const Key& key, const ProductVector& vector) {
  const auto [found, is_new] = plans_.try_emplace(key, key);
  Plan& plan = found->second;
  if (vector.data) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector.data);
  if (is_new) plan.algorithm = choose(key, plan);
  return plan;
}

std::optional<Products::Call> Products::prepare(const ProductOperand& left,
                                                const ProductOperand& right,
                                                const ProductOperand& result, int batch, bool add,
                                                const ProductVector& vector) {
  const std::lock_guard lock(mutex_);
  Plan& p = plan({left.form, right.form, result.form, batch, vector.use,
                  vector.data ? alignment_of(vector.data) : 0},
                 vector);
  PG_CHECK(p.algorithm || vector.data, "cublasLt has no algorithm for ", result.form.columns, " x ",
           result.form.rows, " results");
  if (!p.algorithm) return std::nullopt;
  return Call{this, &p, left.data, right.data, result.data, vector.data, 1, add ? 1.0f : 0.0f};
}

void Products::Call::operator()(cudaStream_t stream) const {
  const std::lock_guard lock(products->mutex_);
  if (vector) set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  PG_CUBLAS(cublasLtMatmul(products->handle_, plan->operation, &one, left, plan->left, right,
                           plan->right, &kept, result, plan->result, result, plan->result,
                           &*plan->algorithm, products->workspace_,
                           static_cast<std::size_t>(products->bytes_), stream));
}

}  // namespace plangrad::cuda
