// A backend's device, stream and memory, and the copies from and to the host; and gathered calls
// launched as a graph: one that is here already, or one that is captured from them.
// Not here: kernels (cuda/backend); the reuse of memory that is freed meanwhile (memory.h).
// Chapter 12; CUDA C++ Programming Guide, streams and CUDA graphs.
#include "cuda/backend/cuda_backend.h"

#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

/// Checks that the device can be used, and makes it current.
static int usable(int ordinal) {
  int count = 0;
  PG_CUDA(cudaGetDeviceCount(&count));
  PG_CHECK(ordinal >= 0 && ordinal < count, "cuda: there is no device ", ordinal,
           "; this machine has ", count, ", numbered from 0");
  cudaDeviceProp properties;
  PG_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  PG_CHECK(properties.major >= 8, "cuda: device ", ordinal, ", ", properties.name,
           ", has compute capability ", properties.major, '.', properties.minor,
           "; expected 8.0 or later");
  PG_CUDA(cudaSetDevice(ordinal));
  return ordinal;
}

/// The kernel of each IndexUse, and its name for the index, for messages.
constexpr const char* names[] = {"index",          "gather: index",  "expand: index",
                                 "collect: index", "scatter: index", "cross_entropy: target",
                                 "embedding: id"};

CudaBackend::CudaBackend(int ordinal, CudaSettings settings)
    : ordinal_(usable(ordinal)),
      allocator_(ordinal, stream_, settings.keeps_blocks),
      products_(std::in_place, allocator_, settings.tf32),
      graphs_(settings.graphs ? std::make_unique<Graphs>(stream_, allocator_) : nullptr),
      fault_(static_cast<IndexFault*>(allocator_.allocate(sizeof(IndexFault)))),
      fault_copy_(sizeof(IndexFault)) {
  PG_CUDA(cudaMemsetAsync(fault_, 0, sizeof(IndexFault), stream_));
}

// Ignores errors: a destructor can't throw, and other calls have thrown those of kernels.
CudaBackend::~CudaBackend() {
  cudaSetDevice(ordinal_);
  cudaStreamSynchronize(stream_);
  graphs_.reset();
  products_.reset();
  allocator_.free(fault_, sizeof(IndexFault));
  cudaStreamSynchronize(stream_);
}

DevicePtr cuda_device(int ordinal, CudaSettings settings) {
  return std::make_shared<Device>(std::make_shared<CudaBackend>(ordinal, settings));
}

cudaStream_t CudaBackend::stream() const {
  if (gathering()) graphs_->begin();
  return stream_;
}

void CudaBackend::set_bytes(void* data, int value, std::size_t bytes) const {
  auto set = [=](cudaStream_t stream) { PG_CUDA(cudaMemsetAsync(data, value, bytes, stream)); };
  queue(set, data, value, bytes);
}

void CudaBackend::as_one_launch(const std::function<void()>& work) {
  use();
  graphs_ ? graphs_->gather(work) : work();
}

/// Launches gathered work if memory runs out: after that, more memory can be freed.
void* CudaBackend::allocate(std::int64_t bytes) try {
  return allocator_.allocate(bytes);
} catch (const Error&) {
  if (!gathering()) throw;
  graphs_->begin();
  return allocator_.allocate(bytes);
}

void CudaBackend::copy_from_host(const void* source, Out y) {
  refuse_f64(y);
  use();
  std::lock_guard lock(host_mutex_);
  staging_.to_device(y.raw(), source, y.bytes(), stream());
}

void CudaBackend::reserve_staging() {
  use();
  std::lock_guard lock(host_mutex_);
  staging_.reserve();
}

/// Copies the fault first, so that waiting for the last copy is enough.
void CudaBackend::read(const void* source, void* target, std::int64_t bytes) {
  use();
  std::lock_guard lock(host_mutex_);
  PG_CUDA(
      cudaMemcpyAsync(fault_copy_, fault_, sizeof(IndexFault), cudaMemcpyDeviceToHost, stream()));
  staging_.to_host(target, source, bytes, stream_);
  if (bytes == 0) PG_CUDA(cudaStreamSynchronize(stream_));
  throw_index_fault();
}

void CudaBackend::throw_index_fault() {
  const auto& found = *static_cast<const IndexFault*>(fault_copy_.made);
  if (found.use == 0) return;
  PG_CUDA(cudaMemsetAsync(fault_, 0, sizeof(IndexFault), stream_));
  throw Error(text(names[found.use], ' ', found.index, " is outside [0,", found.limit,
                   "), found by a kernel on CUDA device ", ordinal_));
}

using Recorded = Handle<cudaGraph_t, cudaGraphDestroy>;

Graphs::Graphs(cudaStream_t target, CachingAllocator& allocator)
    : target_(target),
      allocator_(allocator),
      value_block_(static_cast<std::byte*>(allocator.allocate(value_bytes))),
      value_staging_(value_bytes) {
  value_staging_.reserve();
}

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
Graphs::ReadyGraph& Graphs::find() {
  auto found = std::ranges::find(kept_, arguments_, &ReadyGraph::arguments);
  if (found == kept_.end()) found = update_or_make(Recorded(capture()));
  found->arguments = arguments_;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front();
}

/// Updates the last of many graphs with as many nodes, whose queued launches do not change; or
/// makes a new one if there are few, or CUDA can't update it.
std::list<Graphs::ReadyGraph>::iterator Graphs::update_or_make(cudaGraph_t graph) {
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
