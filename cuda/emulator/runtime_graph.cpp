// Graphs: the work that a stream has recorded, queued again and again as one operation.
// Not here: recording, which takes place where operations are queued (stream.cpp). Graphs that are
// put together by hand, or with branches.
// CUDA Runtime API, graph management; CUDA C++ Programming Guide, CUDA graphs.
#include <cstring>
#include <utility>
#include <vector>

#include "cuda/emulator/emulator.h"
#include "cuda/emulator/runtime.h"

using namespace plangrad::cuda::emulator;

namespace {

/// One after the other. Launches that are queued keep theirs when the graph becomes another one.
using Nodes = std::shared_ptr<const std::vector<Operation>>;

cudaGraphExecUpdateResult compare(const std::vector<Operation>& a,
                                  const std::vector<Operation>& b) {
  if (a.size() != b.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::strcmp(a[i].name, b[i].name) != 0) return cudaGraphExecUpdateErrorNodeTypeChanged;
  return cudaGraphExecUpdateSuccess;
}

}  // namespace

struct CUgraph_st {
  Nodes nodes;
};
struct CUgraphExec_st {
  Nodes nodes;
};

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (stream->is_default || stream->waits_for_default)
    return finish(cudaErrorStreamCaptureUnsupported);
  return finish(begin_recording(stream) ? cudaSuccess : cudaErrorIllegalState);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  std::optional<Recording> recording = end_recording(stream);
  if (!recording) return finish(cudaErrorIllegalState);
  if (recording->spoiled) return finish(cudaErrorStreamCaptureInvalidated);
  auto nodes = std::make_shared<const std::vector<Operation>>(std::move(recording->operations));
  *graph = new CUgraph_st{std::move(nodes)};
  return finish(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (!graph || nodes) return finish(cudaErrorInvalidValue);
  *count = graph->nodes->size();
  return finish(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  if (!graph || flags != 0) return finish(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{graph->nodes};
  return finish(cudaSuccess);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  if (!executable || !graph || !result) return finish(cudaErrorInvalidValue);
  *result = {compare(*executable->nodes, *graph->nodes), nullptr, nullptr};
  if (happens(settings().refused_updates)) result->result = cudaGraphExecUpdateErrorNotSupported;
  if (result->result != cudaGraphExecUpdateSuccess) return finish(cudaErrorGraphExecUpdateFailure);
  executable->nodes = graph->nodes;
  return finish(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (!executable) return finish(cudaErrorInvalidValue);
  if (cudaError_t error = finish(cudaSuccess)) return error;  // the device has failed before
  enqueue_together(stream, *executable->nodes);
  return finish(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return finish(graph ? cudaSuccess : cudaErrorInvalidValue);
}

/// Queued launches of the graph still run.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return finish(executable ? cudaSuccess : cudaErrorInvalidValue);
}
