// Products: matrix products by cublasLt on one device; throws its errors as plangrad's Error.
// Not here: tensors and the kernels of a Backend that use it (cuda/backend/gemm.cu).
// Chapter 03; cuBLAS library reference, cublasLt.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <tuple>

#include "cuda/backend/memory.h"

namespace plangrad::cuda {

/// A batch of matrices as cublasLt takes them, by columns: our rows are its columns.
struct ProductOperand {
  /// The properties by which an algorithm is chosen.
  struct Form {
    cudaDataType_t type = CUDA_R_32F;
    bool transposed = false;
    std::int64_t rows = 0, columns = 0;  ///< as they lie in memory
    std::int64_t pitch = 0, stride = 0;  ///< elements from column to column, from matrix to matrix
    std::uint32_t alignment = 0;         ///< see alignment_of
    auto operator<=>(const Form&) const = default;
  };
  Form form;
  void* data = nullptr;
};

/// Work that a product does besides, by the elements of a vector as wide as the result's rows.
struct ProductVector {
  cublasLtEpilogue_t use = CUBLASLT_EPILOGUE_DEFAULT;  ///< adds a bias, or sums its gradient
  void* data = nullptr;                                ///< of the result's type
};

/// The largest power of two that divides an address, up to 16: no kernel loads more bytes at once.
/// More would let the same product at two places be computed by kernels with different bits.
std::uint32_t alignment_of(const void* address);

// [snippet products]
/// Any thread may prepare products. They are queued on streams that wait for each other, because
/// they share the workspace.
///
/// A product of one form always has the algorithm that was chosen first, in graphs and outside. A
/// sum that is split into parts keeps them in the workspace, in f32, and adds them in a fixed
/// order.
class Products {
 public:
  /// For the current device. The allocator must outlive it.
  explicit Products(CachingAllocator& allocator);
  ~Products();

  struct Plan;
  /// A product that is ready to be queued, as often as it is wanted.
  struct Call {
    Products* products;
    Plan* plan;
    const void *left, *right;
    void *result, *vector;
    float one, kept;  // result = one * left right + kept * result
    void operator()(cudaStream_t stream) const;
  };
  /// Prepares result = left right, or result += left right. Nothing if cublasLt has no algorithm
  /// for the vector's use.
  /// throws: Error if it has none for a product alone
  std::optional<Call> prepare(const ProductOperand& left, const ProductOperand& right,
                              const ProductOperand& result, int batch, bool add,
                              const ProductVector& vector);
  // [end snippet]

 private:
  using Form = ProductOperand::Form;
  using Key = std::tuple<Form, Form, Form, int, cublasLtEpilogue_t, std::uint32_t>;
  Plan& plan(const Key& key, const ProductVector& vector);
  std::optional<cublasLtMatmulAlgo_t> choose(const Key& key, const Plan& plan) const;

  CachingAllocator& allocator_;
  const std::int64_t bytes_;
  void* const workspace_;
  Handle<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::mutex mutex_;  // protects plans_, and the vector's address in each
  std::map<Key, Plan> plans_;
};

}  // namespace plangrad::cuda
