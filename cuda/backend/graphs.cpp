// Launches gathered calls as a graph: one that is here already, or one that is captured from them.
// Not here: the reuse of memory that is freed meanwhile (memory.h).
// Chapter 12; CUDA C++ Programming Guide, CUDA graphs.
#include "cuda/backend/graphs.h"

#include <algorithm>

namespace plangrad::cuda {

using Recorded = Handle<cudaGraph_t, cudaGraphDestroy>;

Graphs::Graphs(cudaStream_t target, CachingAllocator& allocator)
    : target_(target),
      allocator_(allocator),
      value_block_(static_cast<std::byte*>(allocator.allocate(value_bytes))),
      value_staging_(value_bytes) {
  value_staging_.reserve();
}

Graphs::~Graphs() { allocator_.free(value_block_, value_bytes); }

void Graphs::gather(const std::function<void()>& work) {
  std::thread::id idle;
  if (!gatherer_.compare_exchange_strong(idle, std::this_thread::get_id())) return work();
  try {
    work();
    begin();
  } catch (...) {
    forget();
    gatherer_ = idle;
    throw;
  }
  gatherer_ = std::thread::id();
}

/// Copies the launch's values before it, in the order of the stream: after the last launch, which
/// read its own from the same place.
void Graphs::begin() {
  if (calls_.empty()) return;
  value_staging_.to_device(value_block_, values_.data(), std::ssize(values_), target_);
  PG_CUDA(cudaGraphLaunch(find().executable, target_));
  ++begun_;
  forget();
}

/// Makes the calls on the recording stream. Relaxed, because other threads may allocate memory
/// during the capture.
cudaGraph_t Graphs::capture() {
  cudaGraph_t graph = nullptr;
  PG_CUDA(cudaStreamBeginCapture(recorder_, cudaStreamCaptureModeRelaxed));
  try {
    for (const auto& call : calls_) call(recorder_);
  } catch (...) {
    cudaStreamEndCapture(recorder_, &graph);
    if (graph) cudaGraphDestroy(graph);
    throw;
  }
  PG_CUDA(cudaStreamEndCapture(recorder_, &graph));
  ++captured_;
  return graph;
}

// [snippet find]
/// Returns the graph of the gathered calls, as the first of kept_.
Graphs::Kept& Graphs::find() {
  auto found = std::ranges::find(kept_, arguments_, &Kept::arguments);
  if (found == kept_.end()) found = update_or_make(Recorded(capture()));
  found->arguments = arguments_;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front();
}

/// Updates the last of many graphs with as many nodes, whose queued launches do not change; or
/// makes a new one if there are few, or CUDA can't update it.
std::list<Graphs::Kept>::iterator Graphs::update_or_make(cudaGraph_t graph) {
  std::size_t nodes = 0;
  PG_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  int alike = 0;
  auto last = kept_.end();
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept)
    if (kept->nodes == nodes && ++alike >= most_alike) last = kept;
  if (last != kept_.end()) {
    cudaGraphExecUpdateResultInfo info;
    const cudaError_t error = cudaGraphExecUpdate(last->executable, graph, &info);
    if (error == cudaSuccess) return last;
    if (error != cudaErrorGraphExecUpdateFailure) check(error, "cudaGraphExecUpdate");
    cudaGetLastError();  // clears the error, which CUDA would return again
  }
  cudaGraphExec_t made = nullptr;
  PG_CUDA(cudaGraphInstantiate(&made, graph, 0));
  ++made_;
  return kept_.emplace(kept_.begin(), nodes, made);
}
// [end snippet]

void Graphs::forget() noexcept {
  calls_.clear();
  arguments_.clear();
  values_.clear();
  allocator_.catch_up();
}

}  // namespace plangrad::cuda
