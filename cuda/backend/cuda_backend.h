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
  /// Memory in which kernels note indices that are outside.
  IndexFault* index_fault() const { return fault_; }
  /// Makes the device current for the calling thread.
  void use() const { PG_CUDA(cudaSetDevice(ordinal_)); }
  /// Queues a kernel; an empty grid does nothing. A tensor among the arguments gives its address.
  /// Defined in kernel_types.h, for .cu files.
  template <class... Parameters, class... Arguments>
  void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments&&... arguments) const;
  /// Queues a kernel whose first parameter is the number of its items, with a thread for each.
  template <class... Parameters, class... Arguments>
  void run_each(void (*kernel)(std::int64_t, Parameters...), std::int64_t count,
                Arguments&&... arguments) const;
  /// Queues a kernel with so much dynamic shared memory.
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
  void copy_from_host(const void* source, Out y) override;
  void copy_to_host(In x, void* target) override;
  void copy(In x, Out y) override;
  void fill(double value, Out y) override;
  void fill_normal(RandomKey key, double mean, double deviation, Out y) override;
  void fill_uniform(RandomKey key, double low, double high, Out y) override;
  void copy_rows(In x, Rows from, std::int64_t rows, std::int64_t width, Out y, Rows to) override;
  void permute(In x, const std::vector<int>& order, Out y) override;
  void gather(In x, In index, bool add, Out y) override;
  void expand(In x, In index, Out y) override;
  void unary(Unary op, In x, Out y) override;
  void unary_backward(Unary op, In x, In y, In dy, Out dx) override;
  void binary(Binary op, In a, In b, Out y) override;
  void affine(In x, double scale, double shift, Out y) override;
  void accumulate(In x, Out y) override;
  void dropout(In x, double p, RandomKey key, Out y) override;
  void bias_gelu(In x, In bias, Out y) override;
  void bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) override;
  void reduce(Reduction op, In x, Out y) override;
  void max_backward(In x, In y, In dy, Out dx) override;
  double sum_of_squares(In x) override { return sums_of_squares({x})[0]; }
  std::vector<double> sums_of_squares(const std::vector<Tensor>& tensors) override;
  void gemm(Gemm how, In a, In b, In bias, Out c) override;
  void spmm(const SparsePattern& pattern, In values, Vectors how, In b, In bias, Out c) override;
  void sddmm(const SparsePattern& pattern, Vectors how, In d, In b, Out values) override;
  void softmax(In x, Out y) override;
  void softmax_backward(In y, In dy, Out dx) override;
  void layer_norm(In x, In weight, In bias, double epsilon, Out y, Out mean, Out inverse) override;
  void layer_norm_backward(In x, In weight, In mean, In inverse, In dy, Out dx, Out dweight,
                           Out dbias) override;
  void cross_entropy(In logits, In targets, Out loss, Out normalizer) override;
  void cross_entropy_backward(In logits, In targets, In normalizer, In dloss, double scale,
                              Out dlogits) override;
  void embedding(In table, In ids, Out y) override;
  void embedding_backward(In ids, In dy, Out dtable) override;
  void attention(In qkv, int heads, Out y, Out normalizer) override;
  void attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) override;
  void conv2d(In x, In weight, Window window, Out y) override;
  void conv2d_backward_input(In dy, In weight, Window window, Out dx) override;
  void conv2d_backward_weight(In x, In dy, Window window, Out dweight) override;
  void max_pool2d(In x, Window window, Out y, Out index) override;
  void max_pool2d_backward(In dy, In index, Out dx) override;
  void average_pool2d(In x, Window window, Out y) override;
  void average_pool2d_backward(In dy, Window window, Out dx) override;
  void batch_norm_statistics(In x, Out mean, Out variance) override;
  void batch_norm_apply(In x, In mean, In variance, In weight, In bias, double epsilon,
                        Out y) override;
  void batch_norm_backward(In x, In mean, In variance, In weight, double epsilon, In dy, Out dx,
                           Out dweight, Out dbias) override;
  bool quantize(In x, Quantizer how, RandomKey key, Out bytes) override;
  void dequantize(In bytes, Quantizer how, Out y) override;
  Magnitude magnitude(In x, std::int64_t k) override;
  Selected select(In x, Selection which, Out bytes) override;
  void collect(In x, Out bytes) override;
  void scatter(In bytes, Out y) override;
  void sgd(const SgdStep& step, In gradient, Out momentum, Out master, Out weights) override;
  void adamw(const AdamWStep& step, In gradient, Out first_moment, Out second_moment, Out master,
             Out weights) override;

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
