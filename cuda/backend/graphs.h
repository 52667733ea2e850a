// Graphs: gathers the work that a thread queues, and launches it as one CUDA graph.
// Not here: the choice of that work (the engine calls Backend::as_one_launch).
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

/// Records on its own stream what one thread queues while it gathers; other threads queue on the
/// target as usual. Each recorded graph updates an executable graph with the same nodes, so that
/// addresses and numbers may change from update to update; a new executable graph is made only for
/// nodes that have not occurred before. The host still does the work of queueing, and a little
/// more; the GPU finds its next kernel without the host.
class Graphs {
 public:
  /// Gathers work of the current device, to launch it on `target`, in whose order `allocator`
  /// allocates. Both must outlive the Graphs.
  Graphs(cudaStream_t target, CachingAllocator& allocator);

  /// Gathers what `work` queues. In a nested call, and while another thread gathers, work is queued
  /// as without graphs. If `work` throws, gathered work that is not launched yet is dropped.
  void gather(const std::function<void()>& work);
  /// Whether the calling thread gathers.
  bool gathering() const { return gatherer_ == std::this_thread::get_id(); }

  // The recording stream, and cuBLAS on it, for the thread that gathers.
  cudaStream_t recorder();
  cublasHandle_t cublas();
  /// Launches what has been gathered so far.
  void begin();

  /// The number of executable graphs that have been made.
  int made() const { return made_; }
  /// The number of launches of graphs.
  int begun() const { return begun_; }

 private:
  using Executable = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
  cudaGraphExec_t executable(cudaGraph_t graph);
  void give_up() noexcept;

  const cudaStream_t target_;
  CachingAllocator& allocator_;
  Stream recorder_;
  CublasHandle cublas_;
  std::atomic<std::thread::id> gatherer_{};
  bool recording_ = false;
  std::map<std::size_t, std::deque<Executable>> executables_;  // by number of nodes; end first
  int made_ = 0, begun_ = 0;
};

}  // namespace paragrad::cuda
