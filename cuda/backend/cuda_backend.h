// CudaBackend: every kernel on a GPU, or on the emulator, which runs the same files.
// Not here: the kernels themselves, which are grouped in the .cu files of cuda/backend.
// Chapters 03 and 13; CUDA C++ Programming Guide; cuBLAS library reference, cublasLt.
//
// The room cuda/backend computes tensors on a device; autograd knows it as a Backend:
// cuda_backend.h             a device's stream and kernels; copies from and to the host
// memory.h                   allocation in the order of the stream, and copies by pinned memory
// graphs.h                   launches a step's kernels as one CUDA graph
// kernel_types.h             types, packs of elements and launches, for all kernels
// map.h, elementwise.cu      functions of elements, random numbers, copies; indexed.cu: by index
// softmax.cu, layer_norm.cu  one block or warp per row; images.cu: a thread per pixel
// reduce.cu                  sums and maxima over dimensions, norms of many tensors
// attention.cu               causal attention in f32; attention_flash.cu, attention_hopper.cu: on
//                            tensor cores, by flash_forward.h, flash_backward.h and flash_tiles.h
// gemm.cu                    products by cublasLt; by our kernels: sparse_matmul.cu, convolution.cu
//                            (convolution_tiles.h)
// quantize.cu, largest.cu    kernels of codecs and of pruning; optimizer.cu: the update
// Read elementwise.cu with map.h first, then softmax.cu, then the others in any order. No kernel
// waits for another or adds in a varying order, so every run computes the same bits.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <tuple>

#include "autograd/backend.h"
#include "cuda/backend/graphs.h"

namespace plangrad::cuda {

using namespace autograd;

// ---- matrix products by cublasLt on one device, which throw its errors as ours ----

/// A batch of matrices as cublasLt takes them, by columns: our rows are its columns.
struct ProductOperand {
  /// The properties by which an algorithm is chosen.
  struct Form {
    cudaDataType_t type = CUDA_R_32F;
    bool transposed = false;
    std::int64_t rows = 0, columns = 0;  ///< sizes as the matrix lies in memory
    std::int64_t pitch = 0, stride = 0;  ///< elements from column to column, from matrix to matrix
    std::uint32_t alignment = 0;         ///< see alignment_of
    auto operator<=>(const Form&) const = default;
  };
  Form form;
  void* data = nullptr;
};

/// The largest power of two that divides an address, up to 16: no kernel loads more bytes at once.
/// More would let the same product at two places be computed by kernels with different bits.
std::uint32_t alignment_of(const void* address);

// [snippet products]
/// Any thread may prepare products. They are queued on streams that wait for each other, because
/// they share the workspace.
///
/// A product of one form always has the algorithm that was chosen first, in graphs and outside. A
/// sum that is split keeps its parts in the workspace, in f32, and adds them in a fixed order.
class Products {
 public:
  /// For the current device. The allocator must outlive it. `tf32`: see CudaSettings.
  Products(CachingAllocator& allocator, bool tf32);
  ~Products();

  struct Plan;
  /// A product that is ready to be queued, as often as it is wanted.
  struct Call {
    Products* products;
    Plan* plan;
    const void *left, *right, *bias;
    void* result;
    float one, kept;  // result = one * left right + kept * result
    void operator()(cudaStream_t stream) const;
  };
  /// Prepares result = left right, or result += left right; with a bias of the result's type, if it
  /// is given, added to each column. Nothing if cublasLt has no algorithm with a bias.
  /// throws: Error if it has none for a product alone
  std::optional<Call> prepare(const ProductOperand& left, const ProductOperand& right,
                              const ProductOperand& result, int batch, bool add, const void* bias);
  // [end snippet]

 private:
  using Form = ProductOperand::Form;
  using Key = std::tuple<Form, Form, Form, int, std::uint32_t>;  // the last: see alignment_of
  Plan& plan(const Key& key, const void* bias);
  std::optional<cublasLtMatmulAlgo_t> choose(const Key& key, const Plan& plan) const;

  CachingAllocator& allocator_;
  const bool tf32_;
  const std::int64_t bytes_;
  void* const workspace_;
  Handle<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::mutex mutex_;  // protects plans_, and the bias's address in each
  std::map<Key, Plan> plans_;
};

// ---- the backend ----

struct IndexFault;  // cuda/backend/kernel_types.h

struct CudaSettings {
  bool keeps_blocks = true;  ///< see CachingAllocator
  bool graphs = false;       ///< as_one_launch() launches work as CUDA graphs
  bool tf32 = false;         ///< tensor cores multiply f32 matrices, rounded to 10 bits of mantissa
};

/// A kernel's number of blocks, threads per block, and bytes of dynamic shared memory per block.
struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

/// A GPU's kernels, queued on one stream. The host waits only when it needs a value: in
/// copy_to_host, in sums_of_squares, and for kernels that return a number. The device finds indices
/// outside of a tensor, and leaves their elements undefined; the next of these calls, or
/// synchronize, throws the Error. Kernels compute f32 and bf16; the CPU computes f64.
/// Results do not depend on the order of blocks and threads, or on the GPU's size.
class CudaBackend : public Backend {
 public:
  /// throws: Error if there is no such device, or it is older than compute capability 8.0
  explicit CudaBackend(int ordinal, CudaSettings settings = {});
  ~CudaBackend() override;

  int ordinal() const { return ordinal_; }
  /// The stream, for callers that queue work of their own, with the device made current by use().
  /// Work that this thread has gathered for a graph is launched first.
  cudaStream_t stream() const;
  /// The graphs; null if the settings have none.
  const Graphs* graphs() const { return graphs_.get(); }
  const CachingAllocator& allocator() const { return allocator_; }
  CachingAllocator& allocator() { return allocator_; }
  /// Makes the device current for the calling thread.
  void use() const { PG_CUDA(cudaSetDevice(ordinal_)); }
  /// Queues a kernel; an empty grid does nothing. Tensors among the arguments pass their addresses,
  /// and numbers are rounded to the kernel's types. Defined in kernel_types.h, for .cu files, as is
  /// run_each.
  /// throws: Error if the device has too little shared memory for a block
  template <class... Parameters, class... Arguments>
  void run(void (*kernel)(Parameters...), Grid grid, const Arguments&... arguments) const;
  /// Queues body(item, arguments...) for each item below `count`, with one thread per item if
  /// `lanes` is 1, or one warp if it is 32. The body is a function on the device.
  template <auto body, int lanes = 1, class... Arguments>
  void run_each(std::int64_t count, const Arguments&... arguments) const;
  /// Allocates now what copies from and to the host would allocate when they need it.
  void reserve_staging();
  /// Makes a call that queues work on a stream: now, or in the graph that this thread gathers.
  ///   arguments: all that the call depends on, as Graphs::keep has them
  template <class Call, class... Arguments>
  void queue(Call call, const Arguments&... arguments) const {
    gathering() ? graphs_->keep(std::move(call), arguments...) : call(stream_);
  }
  /// Queues the setting of bytes.
  void set_bytes(void* data, int value, std::size_t bytes) const;
  /// Waits for all queued work.
  /// throws: Error if a kernel has met an index outside of a tensor
  void synchronize() { read(nullptr, nullptr, 0); }
  /// Waits, and reads `bytes` bytes of device memory.
  /// throws: Error as synchronize() does
  void read(const void* source, void* target, std::int64_t bytes);

  /// Launches all that `work` queues as one CUDA graph, if the settings have graphs; as several
  /// graphs if the host waits for values in between.
  void as_one_launch(const std::function<void()>& work) override;
  const char* name() const override { return "cuda"; }
  bool has_f64() const override { return false; }
  bool adds_whole_sums() const override { return true; }
  void* allocate(std::int64_t bytes) override;
  void free(void* data, std::int64_t bytes) override { allocator_.free(data, bytes); }
  void copy_from_host(const void* source, Out y) override;
  void copy_to_host(In x, void* target) override { read(x.raw(), target, x.bytes()); }
  std::int64_t row_pitch(std::int64_t columns) const override;

#define PG_KERNEL(...) override
#define PG_GPU_KERNELS
#include "autograd/kernels.h"
#undef PG_GPU_KERNELS
#undef PG_KERNEL

 private:
  void throw_index_fault();
  bool gathering() const { return graphs_ && graphs_->gathering(); }
  template <class... Parameters>
  void queue_kernel(void (*kernel)(Parameters...), Grid grid, Parameters... parameters) const;

  const int ordinal_;
  const Stream stream_;
  CachingAllocator allocator_;
  std::optional<Products> products_;
  std::unique_ptr<Graphs> graphs_;
  IndexFault* const fault_;  // on the device
  const Pinned fault_copy_;
  std::mutex host_mutex_;  // protects staging_ and fault_copy_
  Staging staging_;
};

/// Makes a device that computes on GPU `ordinal`; several devices may share one GPU.
/// throws: Error as CudaBackend's constructor does
DevicePtr cuda_device(int ordinal = 0, CudaSettings settings = {});

}  // namespace plangrad::cuda
