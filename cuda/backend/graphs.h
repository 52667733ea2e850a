// Graphs: gathers the work that a thread queues, and begins it as one CUDA graph.
// Not here: which parts of a step are gathered (the engine, by Backend::as_one_launch).
// CUDA C++ Programming Guide, CUDA graphs.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "cuda/backend/cublas_handle.h"
#include "cuda/backend/memory.h"

namespace paragrad::cuda {

/// A stream of its own records what one thread queues while it gathers; other threads queue on the
/// target as usual. The recorded graph updates an executable graph of the same nodes, so that
/// addresses and numbers may change from step to step; a new executable graph is made only for new
/// nodes. The host does the work of queueing, and somewhat more; the GPU finds its next kernel
/// without the host.
class Graphs {
 public:
  /// Gathers work of the current device, to begin it on `target`. `allocator` gives memory in the
  /// order of that stream. Both must outlive it.
  Graphs(cudaStream_t target, CachingAllocator& allocator);
  ~Graphs();

  /// Gathers what `work` queues. Within another call, and while another thread gathers, work is
  /// queued as without graphs. If `work` throws, what has not begun yet never does.
  void gather(const std::function<void()>& work);
  /// Whether the calling thread gathers.
  bool gathering() const { return gatherer_ == std::this_thread::get_id(); }

  // The thread that gathers calls these.
  cudaStream_t recorder();
  cublasHandle_t cublas();
  /// Begins what has been gathered so far.
  void begin();

  /// The number of executable graphs that were made.
  int made() const { return made_; }
  /// The number of times that one was begun.
  int begun() const { return begun_; }

 private:
  using Executable = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
  cudaGraphExec_t executable(cudaGraph_t graph);
  void give_up() noexcept;

  const cudaStream_t target_;
  CachingAllocator& allocator_;
  const std::int64_t workspace_bytes_;  // beside what the memory meter counts
  void* const workspace_;
  Stream recorder_;
  CublasHandle cublas_;
  std::atomic<std::thread::id> gatherer_{};
  bool recording_ = false;
  std::map<std::size_t, std::deque<Executable>> executables_;  // by number of nodes
  int made_ = 0, begun_ = 0;
};

}  // namespace paragrad::cuda
