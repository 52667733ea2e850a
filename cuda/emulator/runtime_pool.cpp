// Memory in the order of a stream, from the one pool that each device has.
// Not here: calls that wait for the device (runtime_memory.cpp). A pool that is kept, as plangrad's
// is, gives no memory back by itself; here nothing else is different then.
// CUDA Runtime API, stream ordered memory allocator.
#include <array>

#include "cuda/emulator/runtime.h"

using namespace plangrad::cuda::emulator;

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
