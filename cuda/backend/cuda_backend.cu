// A backend's device, stream and memory, and the copies from and to the host.
// Not here: kernels (cuda/backend). CUDA C++ Programming Guide, streams.
#include "cuda/backend/cuda_backend.h"

#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

namespace {

/// Checks that the device can be used, and makes it current.
int usable(int ordinal) {
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

}  // namespace

CudaBackend::CudaBackend(int ordinal, CudaSettings settings)
    : ordinal_(usable(ordinal)),
      allocator_(ordinal, stream_, settings.keeps_blocks),
      products_(std::in_place, allocator_),
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

autograd::DevicePtr cuda_device(int ordinal, CudaSettings settings) {
  return std::make_shared<autograd::Device>(std::make_shared<CudaBackend>(ordinal, settings));
}

const char* CudaBackend::name() const { return "cuda"; }

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
} catch (const autograd::Error&) {
  if (!gathering()) throw;
  graphs_->begin();
  return allocator_.allocate(bytes);
}

void CudaBackend::free(void* data, std::int64_t bytes) { allocator_.free(data, bytes); }

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

void CudaBackend::copy_to_host(In x, void* target) { read(x.raw(), target, x.bytes()); }

void CudaBackend::synchronize() { read(nullptr, nullptr, 0); }

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
  throw autograd::Error(autograd::text(names[found.use], ' ', found.index, " is outside [0,",
                                       found.limit, "), found by a kernel on CUDA device ",
                                       ordinal_));
}

}  // namespace plangrad::cuda
