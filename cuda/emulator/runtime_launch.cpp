// Launches: checked as CUDA checks them, and queued.
// Not here: running a grid (grid.cpp).
// CUDA Runtime API, execution control; Programming Guide, table of compute
// capabilities (limits of grids and blocks).
#include <map>
#include <mutex>

#include "cuda/emulator/block.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/report.h"
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
