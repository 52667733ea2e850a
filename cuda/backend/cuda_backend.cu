// A backend's device, stream and memory, and the copies from and to the host.
// Not here: kernels (cuda/backend).
// CUDA C++ Programming Guide, streams.
#include "cuda/backend/cuda_backend.h"

#include "cuda/backend/index_fault.h"
#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

namespace {

void check_device(int ordinal) {
  int count = 0;
  PG_CUDA(cudaGetDeviceCount(&count));
  PG_CHECK(ordinal >= 0 && ordinal < count, "cuda: there is no device ", ordinal,
           "; this machine has ", count, ", numbered from 0");
  cudaDeviceProp properties;
  PG_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  PG_CHECK(properties.major >= 8, "cuda: device ", ordinal, ", ", properties.name,
           ", has compute capability ", properties.major, '.', properties.minor,
           "; expected 8.0 or later");
}

const char* name_of(IndexUse use) {
  switch (use) {
    case IndexUse::gather: return "gather: index";
    case IndexUse::expand: return "expand: index";
    case IndexUse::collect: return "collect: index";
    case IndexUse::scatter: return "scatter: index";
    case IndexUse::cross_entropy: return "cross_entropy: target";
    case IndexUse::embedding: return "embedding: id";
    default: return "index";
  }
}

}  // namespace

CudaBackend::CudaBackend(int ordinal, CudaSettings settings) : ordinal_(ordinal) {
  check_device(ordinal);
  use();
  PG_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  allocator_ = std::make_unique<CachingAllocator>(ordinal, stream_, settings.keeps_blocks);
  cublas_ = std::make_unique<CublasHandle>(stream_);
  if (settings.graphs) graphs_ = std::make_unique<Graphs>(stream_, *allocator_);
  fault_ = static_cast<IndexFault*>(allocator_->allocate(sizeof(IndexFault)));
  PG_CUDA(cudaMallocHost(&fault_copy_, sizeof(IndexFault)));
  PG_CUDA(cudaMemsetAsync(fault_, 0, sizeof(IndexFault), stream_));
}

// Nothing can be done about errors here; those of kernels have been thrown by other calls.
CudaBackend::~CudaBackend() {
  cudaSetDevice(ordinal_);
  cudaStreamSynchronize(stream_);
  graphs_.reset();
  allocator_->free(fault_, sizeof(IndexFault));
  cudaStreamSynchronize(stream_);
  cublas_.reset();
  allocator_.reset();
  cudaFreeHost(fault_copy_);
  cudaStreamDestroy(stream_);
}

autograd::DevicePtr cuda_device(int ordinal, CudaSettings settings) {
  return std::make_shared<autograd::Device>(std::make_shared<CudaBackend>(ordinal, settings));
}

const char* CudaBackend::name() const { return "cuda"; }

cudaStream_t CudaBackend::stream() const {
  if (gathering()) graphs_->begin();
  return stream_;
}

void CudaBackend::together(const std::function<void()>& work) {
  use();
  graphs_ ? graphs_->gather(work) : work();
}

/// Once what is gathered has begun, more memory can be given back.
void* CudaBackend::allocate(std::int64_t bytes) try {
  return allocator_->allocate(bytes);
} catch (const autograd::Error&) {
  if (!gathering()) throw;
  graphs_->begin();
  return allocator_->allocate(bytes);
}

void CudaBackend::free(void* data, std::int64_t bytes) { allocator_->free(data, bytes); }

void CudaBackend::copy_from_host(const void* source, Out y) {
  refuse_f64(y);
  use();
  std::lock_guard lock(host_mutex_);
  staging_.to_device(y.raw(), source, y.bytes(), stream());
}

void CudaBackend::copy_to_host(In x, void* target) { read(x.raw(), target, x.bytes()); }

void CudaBackend::synchronize() { read(nullptr, nullptr, 0); }

/// The fault is copied first, so that waiting for the last copy is enough.
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
  if (fault_copy_->use == 0) return;
  PG_CUDA(cudaMemsetAsync(fault_, 0, sizeof(IndexFault), stream_));
  throw autograd::Error(autograd::text(name_of(static_cast<IndexUse>(fault_copy_->use)), ' ',
                                       fault_copy_->index, " is outside [0,", fault_copy_->limit,
                                       "), found by a kernel on CUDA device ", ordinal_));
}

}  // namespace paragrad::cuda
