// Devices, their properties and errors, and the wait for peers.
// Not here: memory, streams and launches.
// CUDA Runtime API, device management and error handling; NCCL's issue 744.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/product.h"
#include "cuda/emulator/runtime.h"
#include "cuda/emulator/scheduler.h"

namespace plangrad::cuda::emulator {

namespace {

Settings current_settings;
std::array<std::atomic<cudaError_t>, most_devices> failures;  // by device
thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;

bool exists(int device) { return device >= 0 && device < settings().devices; }

}  // namespace

const Settings& settings() { return current_settings; }

void configure(const Settings& wanted) {
  PG_CHECK(wanted.devices >= 1 && wanted.devices <= most_devices, "emulator: expected 1 to ",
           most_devices, " devices, got ", wanted.devices);
  PG_CHECK(wanted.queues >= 1, "emulator: expected at least one hardware queue, got ",
           wanted.queues);
  PG_CHECK(wanted.device_bytes >= 0 && wanted.patience > 0,
           "emulator: a device's bytes can't be negative, and patience must be positive");
  PG_CHECK(all_idle(), "emulator: operations are queued; call cudaDeviceSynchronize before");
  current_settings = wanted;
  seed_schedule(wanted.seed);
  count_products_anew();
  explain_faults();
}

std::string reset() {
  drop_all();
  forget_handles();
  forget_shared_limits();
  for (auto& failure : failures) failure = cudaSuccess;
  last_error = cudaSuccess;
  return take_reports();
}

int current_device() { return device_of_thread; }

cudaError_t finish(cudaError_t error) {
  cudaError_t failure = failures[current_device()];
  if (failure != cudaSuccess) error = failure;
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

void fail_device(int device, cudaError_t error) { failures[device] = error; }

}  // namespace plangrad::cuda::emulator

using namespace plangrad::cuda::emulator;

// ---- errors ----------------------------------------------------------------------------------

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
constexpr ErrorText error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
};

const ErrorText& text_of(cudaError_t error) {
  static constexpr ErrorText unknown{error_texts[0].error, "unknown", "unrecognized error code"};
  for (const ErrorText& entry : error_texts)
    if (entry.error == error) return entry;
  return unknown;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }
cudaError_t cudaGetLastError() {
  cudaError_t failure = failures[current_device()];
  cudaError_t last = std::exchange(last_error, cudaSuccess);
  return failure != cudaSuccess ? failure : last;
}

// ---- devices ---------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return finish(cudaErrorInvalidDevice);
  device_of_thread = device;
  return finish(cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!exists(device)) return finish(cudaErrorInvalidDevice);
  *properties = {.name = "plangrad's CUDA emulator",
                 .totalGlobalMem = std::size_t(settings().device_bytes),
                 .sharedMemPerBlock = 48 * 1024,
                 .sharedMemPerBlockOptin = max_shared_bytes,
                 .warpSize = 32,
                 .maxThreadsPerBlock = 1024,
                 .maxThreadsDim = {1024, 1024, 64},
                 .maxGridSize = {0x7FFFFFFF, 65535, 65535},
                 .multiProcessorCount = 4,
                 .major = settings().compute_capability / 10,
                 .minor = settings().compute_capability % 10};
  return finish(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties{};
  if (cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrWarpSize: *value = properties.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(properties.sharedMemPerBlockOptin);
      break;
    default: return finish(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

/// A process with one device has the first that CUDA_VISIBLE_DEVICES names, or one of its own.
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (!exists(device)) return finish(cudaErrorInvalidDevice);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const int number = settings().devices > 1 ? device : visible ? std::atoi(visible) : getpid();
  std::snprintf(id, std::size_t(length), "%04x:%02x:00.0", number >> 8, number & 255);
  return finish(cudaSuccess);
}

/// Each can access each other one.
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!exists(device) || !exists(peer)) return finish(cudaErrorInvalidDevice);
  *can = device != peer;
  return finish(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize() {
  const std::vector<Position> ends = ends_of(current_device());
  bool spoiled = false;
  for (const Position& end : ends) spoiled |= spoils_recording(end.stream);
  return spoiled ? finish(cudaErrorStreamCaptureUnsupported) : wait_result(ends);
}

namespace plangrad::cuda::emulator {

void make_peers(const std::vector<int>& devices) {
  Scheduler::Lock lock(scheduler().mutex);
  for (int device : devices)
    scheduler().devices[device].peers.insert(devices.begin(), devices.end());
}

int calls_that_may_wait(int device) {
  Scheduler::Lock lock(scheduler().mutex);
  return scheduler().devices[device].calls_that_may_wait;
}

cudaError_t wait_for_peers() {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  Device& own = all.devices[current_device()];
  if (own.peers.empty()) return cudaSuccess;
  ++own.calls_that_may_wait;
  const double share = settings().peer_waits;
  if (share == 0 || std::uniform_real_distribution()(all.random) >= share) return cudaSuccess;
  all.wait_until_open(current_device(), lock);
  own.closed_by = std::this_thread::get_id();
  std::vector<Position> ends;
  for (const auto& stream : all.streams)
    if (own.peers.contains(stream->device)) ends.push_back({stream, stream->issued, stream->last});
  lock.unlock();
  const cudaError_t result = wait_result(ends);
  lock.lock();
  own.closed_by = {};
  all.changed.notify_all();
  return result;
}

}  // namespace plangrad::cuda::emulator
