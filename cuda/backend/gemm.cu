// Matrix products by cublasLt, which stores matrices by columns: its product
// c^T = op(b)^T op(a)^T is our c = op(a) op(b), which is stored by rows. Products describes them,
// and keeps the algorithm that cublasLt chooses for each form.
// Not here: reasons (cuda_backend.h); sparse products (sparse_matmul.cu), and attention's products.
// Chapter 03; cuBLAS library reference, cublasLtMatmul and cublasLtMatmulAlgoGetHeuristic.
#include <limits>

#include "cuda/backend/kernel_types.h"

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

  Plan(const Key& key, bool tf32)
      : left(std::get<0>(key), std::get<3>(key)),
        right(std::get<1>(key), std::get<3>(key)),
        result(std::get<2>(key), std::get<3>(key)) {
    auto operation_on = [](const Form& x) {
      return static_cast<std::int32_t>(x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    const bool rounds = tf32 && std::get<0>(key).type == CUDA_R_32F;
    PG_CUBLAS(cublasLtMatmulDescCreate(
        &operation.made, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, operation_on(std::get<0>(key)));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, operation_on(std::get<1>(key)));
    if (std::get<4>(key) > 0)
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
  }
};

Products::Products(CachingAllocator& allocator, bool tf32)
    : allocator_(allocator),
      tf32_(tf32),
      bytes_(workspace_bytes()),
      workspace_(allocator.allocate(bytes_)) {
  PG_CUBLAS(cublasLtCreate(&handle_.made));
}

Products::~Products() { allocator_.free(workspace_, bytes_); }

/// The algorithm that cublasLt expects to be fastest for operands that are aligned so.
std::optional<cublasLtMatmulAlgo_t> Products::choose(const Key& key, const Plan& plan) const {
  const auto& [left, right, result, batch, bias_alignment] = key;
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

/// The plan of a form, with the bias's address: where it lies counts for the choice, too.
Products::Plan& Products::plan(const Key& key, const void* bias) {
  const auto [found, is_new] = plans_.try_emplace(key, key, tf32_);
  Plan& plan = found->second;
  if (bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (is_new) plan.algorithm = choose(key, plan);
  return plan;
}

std::optional<Products::Call> Products::prepare(const ProductOperand& left,
                                                const ProductOperand& right,
                                                const ProductOperand& result, int batch, bool add,
                                                const void* bias) {
  const std::lock_guard lock(mutex_);
  Plan& p = plan({left.form, right.form, result.form, batch, bias ? alignment_of(bias) : 0}, bias);
  PG_CHECK(p.algorithm || bias, "cublasLt has no algorithm for ", result.form.columns, " x ",
           result.form.rows, " results");
  if (!p.algorithm) return std::nullopt;
  return Call{this, &p, left.data, right.data, bias, result.data, 1, add ? 1.0f : 0.0f};
}

void Products::Call::operator()(cudaStream_t stream) const {
  const std::lock_guard lock(products->mutex_);
  if (bias) set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  PG_CUBLAS(cublasLtMatmul(products->handle_, plan->operation, &one, left, plan->left, right,
                           plan->right, &kept, result, plan->result, result, plan->result,
                           &*plan->algorithm, products->workspace_,
                           static_cast<std::size_t>(products->bytes_), stream));
}

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

/// A batch of matrices as cublasLt takes it.                                     x (B,rows,columns)
ProductOperand operand(const Tensor& x, bool transposed) {
  return {{.type = x.dtype() == DType::f32 ? CUDA_R_32F : CUDA_R_16BF,
           .transposed = transposed,
           .rows = x.size(2),
           .columns = x.size(1),
           .pitch = x.size(2),
           .stride = x.size(1) * x.size(2),
           .alignment = alignment_of(x.raw())},
          x.raw()};
}

/// Whether all rows of the matrices are whole words of 16 bytes. Where an operand's are not,
/// cublasLt rounds a product to bf16 before it adds a bias (seen on an H200 with CUDA 13.0).
bool has_words(const ProductOperand& x) {
  const int bytes = x.form.type == CUDA_R_32F ? 4 : 2;
  return x.form.alignment == 16 && x.form.pitch * bytes % 16 == 0;
}

/// Sets c to an empty sum, unless it is added to c, and to the bias.
void begin_sum(CudaBackend& backend, bool add, const Tensor& bias, const Tensor& c) {
  if (!bias.defined()) return add ? void() : backend.fill(0, c);
  dispatch(bias, [&]<class T>() {
    dispatch(c, [&]<class U>() { add_bias<T, U>(backend, bias, add, c); });
  });
}

}  // namespace

// cublasLt adds a bias of c's type to rows of words, and rounds once. Otherwise c begins as the
// bias; only bf16 results with both `add` and a bias are then rounded twice.
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
  if (k == 0) return begin_sum(*this, how.add, bias, c);
  const ProductOperand left = operand(b, how.transpose_b), right = operand(a, how.transpose_a),
                       result = operand(c, false);
  auto multiply = [&](bool add, const void* added) {
    use();
    const auto call = products_->prepare(left, right, result, static_cast<int>(batch), add, added);
    if (call) queue(*call, *call);
    return call.has_value();
  };
  const bool fits = bias.defined() && bias.dtype() == c.dtype() && has_words(left) &&
                    has_words(right) && has_words(result);
  if (fits && multiply(how.add, bias.raw())) return;
  if (bias.defined()) begin_sum(*this, how.add, bias, c);
  multiply(how.add || bias.defined(), nullptr);
}

// Multiples of 8 would do for bf16; 64 are half of a tile, or a quarter, and 128 bytes.
std::int64_t CudaBackend::row_pitch(std::int64_t columns) const { return (columns + 63) / 64 * 64; }

}  // namespace plangrad::cuda
