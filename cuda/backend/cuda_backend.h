// CudaBackend: every kernel on a GPU, or on the emulator, which runs the same files.
// Not here: the kernels, which are spread over the .cu files of cuda/backend by what they do.
// Chapter 03; CUDA C++ Programming Guide.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>

#include "autograd/backend.h"
#include "cuda/backend/caching_allocator.h"
#include "cuda/backend/cublas_handle.h"
#include "cuda/backend/graphs.h"
#include "cuda/backend/staging.h"
#include "cuda/launch/check.h"

namespace paragrad::cuda {

using autograd::AdamWStep;
using autograd::Binary;
using autograd::DType;
using autograd::Magnitude;
using autograd::Quantizer;
using autograd::RandomKey;
using autograd::Reduction;
using autograd::Selected;
using autograd::Selection;
using autograd::SgdStep;
using autograd::SparsePattern;
using autograd::Tensor;
using autograd::Unary;
using autograd::Vectors;
using autograd::Window;

struct IndexFault;  // cuda/backend/index_fault.h

struct CudaSettings {
  bool keeps_blocks = true;  ///< see CachingAllocator
  bool graphs = false;       ///< together() begins work as CUDA graphs
};

/// Kernels are queued on one stream, and the host waits only where it needs a value: in
/// copy_to_host, in sums_of_squares, and where a kernel's result is a number. Indices that are
/// outside of a tensor are found on the device, which leaves their elements undefined; the next of
/// these calls, or synchronize, throws the Error. f32 and bf16; f64 is the CPU's.
/// Results do not depend on the order of blocks and threads, nor on the GPU's size.
class CudaBackend : public autograd::Backend {
 public:
  /// throws: Error if there is no such device, or it is older than compute capability 8.0
  explicit CudaBackend(int ordinal, CudaSettings settings = {});
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  int ordinal() const { return ordinal_; }
  /// For those who queue work of their own, with the device made current by use(). What this thread
  /// has gathered for a graph is begun before.
  cudaStream_t stream() const;
  /// Null without graphs.
  const Graphs* graphs() const { return graphs_.get(); }
  const CachingAllocator& allocator() const { return *allocator_; }
  /// Where kernels note indices that are outside.
  IndexFault* index_fault() const { return fault_; }
  /// Makes the device current for the calling thread.
  void use() const { PG_CUDA(cudaSetDevice(ordinal_)); }
  /// Queues a kernel; an empty grid does nothing. Defined in kernel_types.h, for .cu files.
  template <class... Parameters, class... Arguments>
  void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments&&... arguments) const;
  /// The same with so much dynamic shared memory.
  /// throws: Error if the device has less for a block
  template <class... Parameters, class... Arguments>
  void run_shared(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  Arguments&&... arguments) const;
  /// Waits for all that is queued.
  /// throws: Error if a kernel has met an index outside of a tensor
  void synchronize();
  /// Waits, and reads `bytes` bytes of device memory.
  /// throws: as synchronize
  void read(const void* source, void* target, std::int64_t bytes);

  /// What `work` queues begins together, as a CUDA graph, if the settings have graphs; or as
  /// several, between which the host waits for a value.
  void together(const std::function<void()>& work) override;
  const char* name() const override;
  bool has_f64() const override { return false; }
  void* allocate(std::int64_t bytes) override;
  void free(void* data, std::int64_t bytes) override;
  void copy_from_host(const void* source, const Tensor& y) override;
  void copy_to_host(const Tensor& x, void* target) override;
  void copy(const Tensor& x, const Tensor& y) override;
  void fill(double value, const Tensor& y) override;
  void fill_normal(RandomKey key, double mean, double deviation, const Tensor& y) override;
  void fill_uniform(RandomKey key, double low, double high, const Tensor& y) override;
  void copy_rows(const Tensor& x, Rows from, std::int64_t rows, std::int64_t width, const Tensor& y,
                 Rows to) override;
  void permute(const Tensor& x, const std::vector<int>& order, const Tensor& y) override;
  void gather(const Tensor& x, const Tensor& index, bool add, const Tensor& y) override;
  void expand(const Tensor& x, const Tensor& index, const Tensor& y) override;
  void unary(Unary op, const Tensor& x, const Tensor& y) override;
  void unary_backward(Unary op, const Tensor& x, const Tensor& y, const Tensor& dy,
                      const Tensor& dx) override;
  void binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& y) override;
  void affine(const Tensor& x, double scale, double shift, const Tensor& y) override;
  void accumulate(const Tensor& x, const Tensor& y) override;
  void dropout(const Tensor& x, double p, RandomKey key, const Tensor& y) override;
  void bias_gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override;
  void bias_gelu_backward(const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                          const Tensor& dbias) override;
  void reduce(Reduction op, const Tensor& x, const Tensor& y) override;
  void max_backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) override;
  double sum_of_squares(const Tensor& x) override { return sums_of_squares({x})[0]; }
  std::vector<double> sums_of_squares(const std::vector<Tensor>& tensors) override;
  void gemm(Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Tensor& c) override;
  void spmm(const SparsePattern& pattern, const Tensor& values, Vectors how, const Tensor& b,
            const Tensor& bias, const Tensor& c) override;
  void sddmm(const SparsePattern& pattern, Vectors how, const Tensor& d, const Tensor& b,
             const Tensor& values) override;
  void softmax(const Tensor& x, const Tensor& y) override;
  void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override;
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                  const Tensor& y, const Tensor& mean, const Tensor& inverse) override;
  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& inverse, const Tensor& dy, const Tensor& dx,
                           const Tensor& dweight, const Tensor& dbias) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                     const Tensor& normalizer) override;
  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& normalizer,
                              const Tensor& dloss, double scale, const Tensor& dlogits) override;
  void embedding(const Tensor& table, const Tensor& ids, const Tensor& y) override;
  void embedding_backward(const Tensor& ids, const Tensor& dy, const Tensor& dtable) override;
  void attention(const Tensor& qkv, int heads, const Tensor& y, const Tensor& normalizer) override;
  void attention_backward(const Tensor& qkv, int heads, const Tensor& y, const Tensor& normalizer,
                          const Tensor& dy, const Tensor& dqkv) override;
  void conv2d(const Tensor& x, const Tensor& weight, Window window, const Tensor& y) override;
  void conv2d_backward_input(const Tensor& dy, const Tensor& weight, Window window,
                             const Tensor& dx) override;
  void conv2d_backward_weight(const Tensor& x, const Tensor& dy, Window window,
                              const Tensor& dweight) override;
  void max_pool2d(const Tensor& x, Window window, const Tensor& y, const Tensor& index) override;
  void max_pool2d_backward(const Tensor& dy, const Tensor& index, const Tensor& dx) override;
  void average_pool2d(const Tensor& x, Window window, const Tensor& y) override;
  void average_pool2d_backward(const Tensor& dy, Window window, const Tensor& dx) override;
  void batch_norm_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) override;
  void batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& variance,
                        const Tensor& weight, const Tensor& bias, double epsilon,
                        const Tensor& y) override;
  void batch_norm_backward(const Tensor& x, const Tensor& mean, const Tensor& variance,
                           const Tensor& weight, double epsilon, const Tensor& dy, const Tensor& dx,
                           const Tensor& dweight, const Tensor& dbias) override;
  bool quantize(const Tensor& x, Quantizer how, RandomKey key, const Tensor& bytes) override;
  void dequantize(const Tensor& bytes, Quantizer how, const Tensor& y) override;
  Magnitude magnitude(const Tensor& x, std::int64_t k) override;
  Selected select(const Tensor& x, Selection which, const Tensor& bytes) override;
  void collect(const Tensor& x, const Tensor& bytes) override;
  void scatter(const Tensor& bytes, const Tensor& y) override;
  void sgd(const SgdStep& step, const Tensor& gradient, const Tensor& momentum,
           const Tensor& master, const Tensor& weights) override;
  void adamw(const AdamWStep& step, const Tensor& gradient, const Tensor& first_moment,
             const Tensor& second_moment, const Tensor& master, const Tensor& weights) override;

 private:
  void throw_index_fault();
  bool gathering() const { return graphs_ && graphs_->gathering(); }
  /// Where this thread's kernels are queued now: on the stream, or for a graph.
  cudaStream_t queue() const { return gathering() ? graphs_->recorder() : stream_; }
  cublasHandle_t cublas() const { return gathering() ? graphs_->cublas() : *cublas_; }

  int ordinal_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CachingAllocator> allocator_;
  std::unique_ptr<CublasHandle> cublas_;
  std::unique_ptr<Graphs> graphs_;
  IndexFault *fault_ = nullptr, *fault_copy_ = nullptr;  // on the device; pinned
  std::mutex host_mutex_;                                // of staging_ and fault_copy_
  Staging staging_;
};

/// A device of its own that computes on GPU `ordinal`; several may share one GPU.
/// throws: as CudaBackend
autograd::DevicePtr cuda_device(int ordinal = 0, CudaSettings settings = {});

}  // namespace paragrad::cuda
