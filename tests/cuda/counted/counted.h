// What tests of counters share: the counters of one launch.
// Not here: what they should be. Chapter 12.
#pragma once

#include <cuda_bf16.h>

#include <utility>

#include "cuda/emulator/counted/counters.h"
#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/emulated_machine.h"

namespace plangrad::tests {

using cuda::emulator::Counters;

inline std::vector<__nv_bfloat16> ones(std::size_t count) {
  return std::vector<__nv_bfloat16>(count, __float2bfloat16(1));
}

/// Runs the kernel once, in an order of threads that must not matter.
template <class Kernel, class... Arguments>
Counters counters_of(Kernel kernel, unsigned blocks, unsigned threads, Arguments&&... arguments) {
  cuda::emulator::reset_counters();
  cuda::launch(kernel, blocks, threads, 0, nullptr, std::forward<Arguments>(arguments)...);
  PG_CUDA(cudaDeviceSynchronize());
  const auto launches = cuda::emulator::counters();
  REQUIRE(launches.size() == 1);
  return launches[0].counts;
}

}  // namespace plangrad::tests
