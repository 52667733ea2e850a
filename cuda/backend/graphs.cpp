// Records a graph from the first work that a thread queues until the graph is launched.
// Not here: the reuse of memory that is freed meanwhile (memory.h).
// CUDA C++ Programming Guide, CUDA graphs.
#include "cuda/backend/graphs.h"

namespace paragrad::cuda {

using Recorded = Handle<cudaGraph_t, cudaGraphDestroy>;

Graphs::Graphs(cudaStream_t target, CachingAllocator& allocator)
    : target_(target), allocator_(allocator), cublas_(recorder_, allocator) {}

void Graphs::gather(const std::function<void()>& work) {
  std::thread::id idle;
  if (!gatherer_.compare_exchange_strong(idle, std::this_thread::get_id())) return work();
  try {
    work();
    begin();
  } catch (...) {
    give_up();
    gatherer_ = idle;
    throw;
  }
  gatherer_ = std::thread::id();
}

cudaStream_t Graphs::recorder() {
  if (!recording_) {
    // Relaxed, because this thread and others may allocate memory during the capture.
    PG_CUDA(cudaStreamBeginCapture(recorder_, cudaStreamCaptureModeRelaxed));
    allocator_.hold_back();
    recording_ = true;
  }
  return recorder_;
}

cublasHandle_t Graphs::cublas() {
  recorder();
  return cublas_;
}

void Graphs::begin() {
  if (!recording_) return;
  recording_ = false;
  Recorded graph;
  PG_CUDA(cudaStreamEndCapture(recorder_, &graph.made));
  PG_CUDA(cudaGraphLaunch(executable(graph), target_));
  allocator_.catch_up();
  ++begun_;
}

// [snippet executable]
/// Returns an executable graph with as many nodes, updated to `graph`, or a new one if none can be
/// updated. Launches that are already queued do not change.
cudaGraphExec_t Graphs::executable(cudaGraph_t graph) {
  std::size_t nodes = 0;
  PG_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  for (cudaGraphExec_t same_size : executables_[nodes]) {
    cudaGraphExecUpdateResultInfo info;
    const cudaError_t error = cudaGraphExecUpdate(same_size, graph, &info);
    if (error == cudaSuccess) return same_size;
    if (error != cudaErrorGraphExecUpdateFailure) check(error, "cudaGraphExecUpdate");
    cudaGetLastError();  // clears the error, which CUDA would return again
  }
  cudaGraphExec_t made = nullptr;
  PG_CUDA(cudaGraphInstantiate(&made, graph, 0));
  ++made_;
  return executables_[nodes].emplace_back(made);
}
// [end snippet]

void Graphs::give_up() noexcept {
  Recorded graph;
  if (recording_) cudaStreamEndCapture(recorder_, &graph.made);
  recording_ = false;
  allocator_.catch_up();
}

}  // namespace paragrad::cuda
