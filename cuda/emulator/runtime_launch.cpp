// Launches, checked as CUDA checks them, and queued; and graphs: the work that a stream has
// recorded, queued again and again as one operation.
// Not here: running a grid (grid.cpp); recording, which takes place where operations are queued
// (stream.cpp); graphs that are put together by hand, or with branches.
// CUDA Runtime API, execution control and graph management; Programming Guide, table of compute
// capabilities (limits of grids and blocks), CUDA graphs.
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/emulator/block.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/runtime.h"

namespace plangrad::cuda::emulator {

namespace {

constexpr int shared_bytes_unasked = 48 * 1024;

/// Dynamic shared memory that kernels may have, where it was raised.
struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, int> bytes;
};
SharedLimits& limits() {
  static SharedLimits instance;
  return instance;
}

std::size_t limit_of(const void* function) {
  std::lock_guard lock(limits().mutex);
  auto found = limits().bytes.find(function);
  return found == limits().bytes.end() ? shared_bytes_unasked : found->second;
}

bool is_possible(const dim3& grid, const dim3& block) {
  std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return threads >= 1 && threads <= Block::max_threads && block.z <= 64 && grid.x >= 1 &&
         grid.x <= 0x7FFFFFFF && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
}

}  // namespace

cudaError_t set_attribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      value > int(max_shared_bytes))
    return finish(cudaErrorInvalidValue);
  std::lock_guard lock(limits().mutex);
  limits().bytes[function] = value;
  return finish(cudaSuccess);
}

void forget_shared_limits() {
  std::lock_guard lock(limits().mutex);
  limits().bytes.clear();
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* function,
                   std::function<void()> kernel) {
  std::shared_ptr<Stream> stream = find_stream(config.stream);
  if (!stream || stream->device != current_device()) return finish(cudaErrorInvalidResourceHandle);
  if (!is_possible(config.gridDim, config.blockDim)) return finish(cudaErrorInvalidConfiguration);
  if (config.dynamicSmemBytes > limit_of(function) || config.numAttrs != 0)
    return finish(cudaErrorInvalidValue);
  if (cudaError_t error = finish(cudaSuccess)) return error;  // the device has failed before
  Launch grid{std::move(kernel), function, config.gridDim, config.blockDim,
              config.dynamicSmemBytes};
  enqueue(stream, {"kernel",
                   [grid = std::move(grid), device = stream->device] {
                     if (!run_grid(grid)) fail_device(device, cudaErrorLaunchFailure);
                   },
                   {},
                   {},
                   function});
  return finish(cudaSuccess);
}

}  // namespace plangrad::cuda::emulator

/// As C++ writes it; CUDA gives the name of the symbol.
cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  static std::mutex mutex;
  static std::map<const void*, std::string> names;  // for ever, as CUDA's
  std::lock_guard lock(mutex);
  *name = names.try_emplace(kernel, plangrad::cuda::emulator::name_of_function(kernel))
              .first->second.c_str();
  return cudaSuccess;
}

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
