// The machine of a test: the emulated one, with settings, or the GPUs of this computer, which have
// none. Tests that both machines run name devices by ranks, which share GPUs.
// Not here: kernels, and memory for them (device_array.h).
#pragma once

#include <cuda_runtime.h>

#include "cuda/backend/cuda_backend.h"
#include "tests/cuda/device_array.h"
#if defined(CUDA_EMULATOR)
#include "tests/cuda/emulated_machine.h"
#else
#include "tests/cuda/gpu_machine.h"
#endif

namespace plangrad::tests {

/// How many the machine has.
inline int devices() {
  int count = 0;
  PG_CUDA(cudaGetDeviceCount(&count));
  return count;
}

inline cuda::CudaBackend& backend_of(const autograd::DevicePtr& device) {
  return dynamic_cast<cuda::CudaBackend&>(device->backend());
}
/// A device as programs use it; and one on which fresh memory is NaN, and freed memory is gone.
inline autograd::DevicePtr device_of(int rank) { return cuda::cuda_device(rank % devices()); }
inline autograd::DevicePtr strict_device(int rank = 0) {
  return make_strict_device(rank % devices());
}

constexpr QueueSchedule all_schedules[] = {QueueSchedule::eager, QueueSchedule::lazy,
                                           QueueSchedule::random};

/// These settings with every schedule of queued work; the random one with seeds from 1 to `seeds`.
inline std::vector<Settings> every_schedule(std::uint64_t seeds, Settings settings = {}) {
  std::vector<Settings> result;
  for (QueueSchedule schedule : all_schedules)
    for (std::uint64_t seed = 1; seed <= (schedule == QueueSchedule::random ? seeds : 1); ++seed) {
      settings.schedule = schedule;
      settings.seed = seed;
      result.push_back(settings);
    }
  return result;
}

/// NCCL takes a device for each rank.
inline bool nccl_works(int ranks) { return nccl_is_built && ranks <= devices(); }
/// Whether to send by NCCL: no, and, where so many ranks can, yes.
inline std::vector<bool> nccl_choices(int ranks) {
  return nccl_works(ranks) ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

}  // namespace plangrad::tests
