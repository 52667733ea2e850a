// Memory of the devices, pinned host memory, and copies; and memory in the order of a stream, from
// the one pool that each device has. A pool that is kept, as plangrad's is, gives no memory back by
// itself; here nothing else is different then.
// Not here: addresses and limits (device_memory.cpp).
// CUDA Runtime API, memory management, API synchronization behavior, stream ordered allocator.
#include <array>
#include <cstring>
#include <vector>

#include "autograd/error.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/runtime.h"

namespace plangrad::cuda::emulator {

cudaError_t allocate_for(int device, void** start, std::size_t bytes) {
  *start = bytes == 0 ? nullptr : allocate(device, bytes);
  return finish(*start || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}

std::optional<Allocation> owned(void* start, bool pinned) {
  std::optional<Allocation> found = find_allocation(start);
  if (found && found->start == start && (found->device == pinned_host) == pinned) return found;
  return {};
}

}  // namespace plangrad::cuda::emulator

using namespace plangrad::cuda::emulator;

namespace {

/// Returns the kind of memory at an address: a device's, pinned or ordinary host memory.
struct MemoryKind {
  bool is_device = false, is_pageable = true;
  bool fits = true;  ///< so many bytes from the address on

  MemoryKind(const void* address, std::size_t bytes) {
    std::optional<Allocation> found = find_allocation(address);
    if (!found) return;
    is_device = found->device != pinned_host;
    is_pageable = false;
    fits = static_cast<const std::byte*>(address) + bytes <= found->start + found->bytes;
  }
};

bool matches(cudaMemcpyKind kind, bool from_device, bool to_device) {
  switch (kind) {
    case cudaMemcpyHostToHost: return !from_device && !to_device;
    case cudaMemcpyHostToDevice: return !from_device && to_device;
    case cudaMemcpyDeviceToHost: return from_device && !to_device;
    case cudaMemcpyDeviceToDevice: return from_device && to_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

/// Queues a copy. Pageable memory cannot be read or written later: its contents are staged now, and
/// the call waits for what is to be written.
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t handle, bool synchronous) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return finish(cudaSuccess);
  MemoryKind source(from, bytes), target(to, bytes);
  if (!source.fits || !target.fits || !matches(kind, source.is_device, target.is_device))
    return finish(cudaErrorInvalidValue);
  if ((source.is_pageable || target.is_pageable) && spoils_recording(stream))
    return finish(cudaErrorStreamCaptureUnsupported);
  auto move = [=](const void* contents) {
    std::memcpy(to, contents, bytes);
    note_copy(to, contents, bytes);
  };
  Operation operation{"copy", [=] { move(from); }, {}};
  if (source.is_pageable) {
    auto start = static_cast<const std::byte*>(from);
    operation.run = [move, staged = std::vector<std::byte>(start, start + bytes)] {
      move(staged.data());
    };
  }
  Position end = enqueue(stream, std::move(operation));
  bool between_devices = source.is_device && target.is_device;
  if (target.is_pageable || (synchronous && !between_devices)) return wait_result({end});
  return finish(cudaSuccess);
}

cudaError_t free_after_work(void* start, bool pinned) {
  if (!start) return finish(cudaSuccess);
  std::optional<Allocation> found = owned(start, pinned);
  if (!found) return finish(cudaErrorInvalidValue);
  int device = pinned ? current_device() : found->device;
  if (cudaError_t error = wait_result(ends_of(device))) return error;
  if (cudaError_t error = wait_for_peers()) return error;
  if (!release(start)) fail_device(device, cudaErrorLaunchFailure);
  return finish(cudaSuccess);
}

}  // namespace

cudaError_t cudaMalloc(void** start, std::size_t bytes) {
  if (cudaError_t error = wait_for_peers()) return error;
  return allocate_for(current_device(), start, bytes);
}

cudaError_t cudaMallocHost(void** start, std::size_t bytes) {
  if (cudaError_t error = wait_for_peers()) return error;
  return allocate_for(pinned_host, start, bytes);
}

/// CUDA waits for the whole device before it frees.
cudaError_t cudaFree(void* start) { return free_after_work(start, false); }
cudaError_t cudaFreeHost(void* start) { return free_after_work(start, true); }

/// Ordinary host memory is no error: it is of no device.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  std::optional<Allocation> found = find_allocation(address);
  void* start = const_cast<void*>(address);
  if (!found)
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, start};
  else if (found->device == pinned_host)
    *attributes = {cudaMemoryTypeHost, current_device(), start, start};
  else
    *attributes = {cudaMemoryTypeDevice, found->device, start, nullptr};
  return finish(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream, false);
}

/// Asynchronous as well: the host does not wait for a memset of device memory.
cudaError_t cudaMemset(void* start, int value, std::size_t bytes) {
  return cudaMemsetAsync(start, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* start, int value, std::size_t bytes, cudaStream_t handle) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return finish(cudaSuccess);
  MemoryKind target(start, bytes);
  if (target.is_pageable || !target.fits) return finish(cudaErrorInvalidValue);
  auto fill = [=] {
    std::memset(start, value, bytes);
    note(start, bytes, writing);
  };
  enqueue(stream, {"memset", fill, {}});
  return finish(cudaSuccess);
}

struct CUmemPoolHandle_st {};

namespace {

std::array<CUmemPoolHandle_st, most_devices> pools;

bool is_pool(cudaMemPool_t pool) { return pool >= pools.begin() && pool < pools.end(); }

}  // namespace

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (device < 0 || device >= settings().devices) return finish(cudaErrorInvalidDevice);
  *pool = &pools[device];
  return finish(cudaSuccess);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const bool known = attribute == cudaMemPoolAttrReleaseThreshold && value;
  return finish(is_pool(pool) && known ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                 std::size_t count) {
  bool right = is_pool(pool);
  for (std::size_t i = 0; i < count; ++i)
    right = right && list[i].location.type == cudaMemLocationTypeDevice &&
            list[i].location.id >= 0 && list[i].location.id < settings().devices;
  return finish(right ? cudaSuccess : cudaErrorInvalidValue);
}

/// All that was freed has been given back already.
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t) {
  return finish(is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}

/// If the device is full, what the stream has yet to free may make room.
cudaError_t cudaMallocAsync(void** start, std::size_t bytes, cudaStream_t handle) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (spoils_recording(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  if ((*start = allocate(stream->device, bytes))) return finish(cudaSuccess);
  if (cudaError_t error = wait_result({end_of(stream)})) return error;
  return allocate_for(stream->device, start, bytes);
}

cudaError_t cudaFreeAsync(void* start, cudaStream_t handle) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (!start) return finish(cudaSuccess);
  if (!owned(start, false)) return finish(cudaErrorInvalidValue);
  if (spoils_recording(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  enqueue(stream, {"free",
                   [start, device = stream->device] {
                     if (!release(start)) fail_device(device, cudaErrorLaunchFailure);
                   },
                   {}});
  return finish(cudaSuccess);
}
