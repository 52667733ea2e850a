// What kernels are written with: the one layer that knows whether nvcc compiles for a GPU or the
// host compiler for the emulator.
// Not here: kernels. They use this and CUDA's own names; nothing else branches on CUDA_EMULATOR.
// CUDA C++ Programming Guide.
//
// A .cu file that both compile
// - launches by launch(), with parameters that are values, and has no <<<>>>;
// - takes dynamic shared memory from dynamic_shared(), and writes alignas before __shared__;
// - lets all threads of a block reach every barrier, and all 32 of a warp every warp operation;
// - computes in float, converts from and to __nv_bfloat16, and calls expf, not __expf;
// - has no writable __device__ variables, which all emulated devices would share;
// - waits for nothing in memory that another block writes.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "cuda/launch/check.h"

#if defined(CUDA_EMULATOR)
#include "cuda/emulator/device_emulated.h"
#define PG_UNROLL
#else
#include "cuda/launch/device_gpu.h"
#define PG_UNROLL _Pragma("unroll")
#endif

namespace paragrad::cuda {

/// Queues kernel(arguments...) for the grid. Parameters are values, copied now.
/// throws: Error if CUDA refuses the grid, the shared memory or the stream
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...) &&
                    (!std::is_reference_v<Parameters> && ...),
                "a kernel's parameters are values that can be copied as bytes");
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
        "launch of a kernel");
}

/// How many blocks of `size` cover `count`.
constexpr unsigned blocks_for(std::size_t count, std::size_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace paragrad::cuda
