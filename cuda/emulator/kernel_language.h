// CUDA's additions to C++ inside a kernel: small vectors, keywords, the variables that tell a
// thread its place, barriers, and warp operations.
// Not here: atomics and mathematics (device_functions.h). Warp operations take whole warps and the
// full mask; sub-groups (`width`) are left out.
// CUDA C++ Programming Guide, C++ language extensions, built-in vector types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Variables, not macros, because cudaLaunchConfig_t has members of these names.
inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};
constexpr int warpSize = 32;

// [snippet words]
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
// One block runs at a time on a processor thread, and its threads share what is that thread's.
#if defined(__SANITIZE_ADDRESS__)
#define __shared__ static  // so that it has red zones; one block then runs at a time at all
#else
#define __shared__ static thread_local
#endif
// [end snippet]

namespace plangrad::cuda::emulator {

constexpr std::size_t max_shared_bytes = 227 * 1024;  // of a block; an H100's
inline constinit thread_local std::byte* dynamic_shared_memory = nullptr;

/// Waits for all threads of the block.
void block_barrier(const char* name, std::source_location where);
/// Leaves `record` and waits for all lanes of the warp, whose last calls `carry_out` on the 32
/// records. `instructions`: that a GPU needs for it.
void warp_operation(const char* name, std::source_location where, unsigned mask, void* record,
                    void (*carry_out)(void* const* records), int instructions = 1);

/// Runs in the last lane at __syncwarp. A shuffle, by contrast, orders nothing in memory.
void synchronize_warp(void* const* records);

/// Each lane gives a value and receives that of lane `source`.
template <class T>
T shuffle(const char* name, std::source_location where, unsigned mask, T value, int source) {
  struct Record {
    T value;
    int source;
    T result;
  } record{value, source, {}};
  warp_operation(name, where, mask, &record, [](void* const* records) {
    auto lane = [&](int i) -> Record& { return *static_cast<Record*>(records[i]); };
    for (int i = 0; i < warpSize; ++i) lane(i).result = lane(lane(i).source % warpSize).value;
  });
  return record.result;
}

/// Bit i: lane i's predicate.
unsigned ballot(const char* name, std::source_location where, unsigned mask, bool predicate);

inline int lane_of_thread() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize;
}

}  // namespace plangrad::cuda::emulator

// The last argument, which calls leave out, is the place that reports name.
inline void __syncthreads(std::source_location where = std::source_location::current()) {
  plangrad::cuda::emulator::block_barrier("__syncthreads", where);
}

inline void __syncwarp(unsigned mask = ~0u,
                       std::source_location where = std::source_location::current()) {
  using namespace plangrad::cuda::emulator;
  warp_operation("__syncwarp", where, mask, nullptr, synchronize_warp);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source,
              std::source_location where = std::source_location::current()) {
  return plangrad::cuda::emulator::shuffle("__shfl_sync", where, mask, value, source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask,
                  std::source_location where = std::source_location::current()) {
  using namespace plangrad::cuda::emulator;
  return shuffle("__shfl_xor_sync", where, mask, value, lane_of_thread() ^ lane_mask);
}
/// Lanes without a source keep their own value.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta,
                 std::source_location where = std::source_location::current()) {
  using namespace plangrad::cuda::emulator;
  int lane = lane_of_thread(), source = lane - static_cast<int>(delta);
  return shuffle("__shfl_up_sync", where, mask, value, source < 0 ? lane : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                   std::source_location where = std::source_location::current()) {
  using namespace plangrad::cuda::emulator;
  int lane = lane_of_thread(), source = lane + static_cast<int>(delta);
  return shuffle("__shfl_down_sync", where, mask, value, source >= warpSize ? lane : source);
}

/// Bit i: lane i's predicate.
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location where = std::source_location::current()) {
  return plangrad::cuda::emulator::ballot("__ballot_sync", where, mask, predicate);
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return plangrad::cuda::emulator::ballot("__any_sync", where, mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return plangrad::cuda::emulator::ballot("__all_sync", where, mask, predicate) == ~0u;
}
