// The vocabulary of kernels: the only layer that depends on the compiler, nvcc for a GPU or the
// host compiler for the emulator.
// Not here: kernels. They use this and CUDA's own names; nothing else branches on CUDA_EMULATOR.
// Chapter 12; CUDA C++ Programming Guide, warp shuffle functions; Harris, Sengupta and Owens 2007,
// "Parallel prefix sum (scan) with CUDA".
//
// The room cuda/launch is the layer between CUDA and all of plangrad's code that uses it:
// runtime.h        for the host: errors, streams, events, pinned memory
// device.h         for kernels: launches, definitions that both compilers share, sums over blocks
// device_gpu.h     for nvcc: inline PTX; its twin is cuda/emulator/device_emulated.h
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

// Sums over the threads of a block, which has whole warps; all of them call these.

/// Reduces over a block: each warp reduces its values, then the results of all warps, so that all
/// threads get the result of the same order of additions.
template <class T, class Warp>
__device__ T block_reduce(T value, T nothing, Warp across_warp) {
  __shared__ T of_warps[32];
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = across_warp(value);
  if (warps == 1) return value;
  __syncthreads();  // all threads have read the results of an earlier call
  if (lane == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  return across_warp(lane < warps ? of_warps[lane] : nothing);
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, T(0), [](T x) { return warp_sum(x); });
}

/// The maximum over a block; NaN is ignored if there are numbers.
__device__ inline float block_max(float value) {
  return block_reduce(value, value, [](float x) { return warp_max(x); });
}

/// The sum of the values of the threads before this one; `total` receives the sum over all threads.
template <class T>
__device__ T block_sum_before(T value, T& total) {
  __shared__ T of_warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  T sum = value;  // of the lanes up to this one
  for (int offset = 1; offset < 32; offset *= 2) {
    const T before = __shfl_up_sync(~0u, sum, offset);
    if (lane >= offset) sum += before;
  }
  __syncthreads();  // all threads have read the sums of an earlier call
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  total = 0;
  for (int i = 0; i < warps; ++i) {
    if (i == warp) sum += total;
    total += of_warps[i];
  }
  return sum - value;
}

// [snippet places]
/// Places for `width` columns in shared memory, a multiple of 32 N. A warp that takes every N-th
/// column, as threads with packs of N neighbours do, or 32 neighbours, meets no bank twice.
template <int N, int width>
struct ColumnPlaces {
  static constexpr int count = width + 32;
  /// Columns c, c + N, ... are neighbours. The next row of them begins 32 / N banks further on.
  static __device__ int of(int c) { return c % N * (count / N) + c / N; }
};
// [end snippet]

/// Calls body(c, result) once for each column c < 32 N of a block of (32,warps) threads: thread
/// (i,w) has warp w's values of columns N i to N i + N - 1, which are combined in the warps' order.
/// A kernel does this once.
template <int most_warps, int N, class Combine, class Body>
__device__ void for_columns_of_warps(const float (&values)[N], Combine combine, Body body) {
  using Places = ColumnPlaces<N, 32 * N>;
  __shared__ float of_warps[most_warps][Places::count];
  for (int j = 0; j < N; ++j) of_warps[threadIdx.y][Places::of(threadIdx.x * N + j)] = values[j];
  __syncthreads();
  for (int c = threadIdx.y * 32 + threadIdx.x; c < 32 * N; c += 32 * blockDim.y) {
    float result = of_warps[0][Places::of(c)];
    for (unsigned w = 1; w < blockDim.y; ++w) result = combine(result, of_warps[w][Places::of(c)]);
    body(c, result);
  }
}

}  // namespace plangrad::cuda
