// The vocabulary of kernels: the only layer that depends on the compiler, nvcc for a GPU or the
// host compiler for the emulator.
// Not here: kernels. They use this and CUDA's own names; nothing else branches on CUDA_EMULATOR.
// Chapter 12; CUDA C++ Programming Guide.
//
// The room cuda/launch is the layer between CUDA and all of plangrad's code that uses it:
// runtime.h        for the host: errors, streams, events, pinned memory
// device.h         for kernels: launches, and definitions that both compilers share
// device_gpu.h     for nvcc: inline PTX; its twin is cuda/emulator/device_emulated.h
// device_hopper.h  for nvcc and sm_90a: instructions of Hopper, of which products have a twin
// block_sums.h     sums and maxima over a block, made of those over a warp
// It does not know tensors: the ladder, the tests and the backend use it alike.
//
// A .cu file that both compilers accept
// - launches by launch(), with parameters that are values, and has no <<<>>>;
// - takes dynamic shared memory from dynamic_shared(), and writes alignas before __shared__;
// - lets all threads of a block reach every barrier, and all 32 of a warp every warp operation;
// - computes in float, converts from and to __nv_bfloat16, and calls expf, or fast_exp2 where its
//   error is within the bounds, but not __expf;
// - has no writable __device__ variables, which all emulated devices would share;
// - waits for nothing in memory that another block writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda/launch/runtime.h"

#if defined(CUDA_EMULATOR)
#include "cuda/emulator/device_emulated.h"
#define PG_UNROLL
#else
#include "cuda/launch/device_gpu.h"
#define PG_UNROLL _Pragma("unroll")
#endif

namespace plangrad::cuda {

/// Queues kernel(arguments...) for the grid. Parameters are values, which are copied now.
/// throws: Error if CUDA rejects the grid, the shared memory or the stream
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
  const cudaError_t error =
      cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
  if (error != cudaSuccess)
    check(error, kernel_call(reinterpret_cast<const void*>(kernel)).c_str());
}

/// N neighbouring elements, loaded and stored at once: at most 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

/// Whether packs of N elements can be loaded from this address.
template <int N, class T>
__host__ __device__ bool aligned(const T* address) {
  return reinterpret_cast<std::uintptr_t>(address) % (N * sizeof(T)) == 0;
}

/// The number of blocks of `size` that cover `count`.
constexpr unsigned blocks_for(std::size_t count, std::size_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace plangrad::cuda
