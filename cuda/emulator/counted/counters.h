// Counters: what each kernel costs a GPU, as far as that can be counted while the emulator runs it:
// requests to memory and the bytes that they move, conflicts in shared memory, warp instructions.
// Not here: time, and what depends on it. Counts are facts about a model, which follows.
// Chapter 12; CUDA C++ Best Practices Guide, memory optimizations.
//
// - A request is a memory instruction of a warp. The emulator runs a warp's lanes one after the
//   other: the n-th time that they access memory at one place of the program, since they last met
//   at a barrier or an operation of the warp, is one request. Where a loop skips accesses for some
//   lanes, requests that a GPU makes apart from each other can so be taken for one.
// - Instructions are those of g++ -O2, from which nvcc's may differ: it may keep a value in a
//   register that g++ reads again. Local variables and kernels' arguments count as registers.
// - A sector has 32 bytes, a cache line 128; both are counted once per request.
// - A launch begins with an empty cache that forgets nothing, and writes back what was written:
//   bytes from device memory are those of the different sectors that are loaded, and of those that
//   are stored. They are the least that a GPU can move; the sectors of all requests are the most.
// - Shared memory has 32 banks of 4 bytes. One pass serves a different word of each bank to any
//   number of lanes; accesses of 8 or 16 bytes take a pass per half or quarter of a warp at least.
// - Atomic operations on device memory are counted apart; on shared memory they count as stores.
// - Operations that are not kernels have a name (gemm, memset, copy) and the bytes that they use; a
//   gemm's tiles, which cuBLAS chooses, are unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulator/kernel_language.h"

namespace plangrad::cuda::emulator {

using Count = std::uint64_t;

/// Requests to device memory.
struct GlobalCount {
  Count requests = 0;
  Count lanes = 0;     ///< lanes that took part, over all requests
  Count bytes = 0;     ///< bytes that lanes asked for
  Count sectors = 0;   ///< sectors of 32 bytes, over all requests
  Count lines = 0;     ///< lines of 128 bytes, over all requests
  Count distinct = 0;  ///< different sectors of the launch
};

/// Requests to shared memory.
struct SharedCount {
  Count requests = 0;
  Count lanes = 0;
  Count bytes = 0;
  Count passes = 0;
  Count conflicts = 0;  ///< passes beyond those without any conflict
};

struct Counters {
  Count launches = 0, blocks = 0, threads = 0;
  GlobalCount loads, stores, atomics;
  SharedCount shared_loads, shared_stores;
  Count partial = 0;   ///< requests, to either memory, in which fewer than 32 lanes took part
  Count barriers = 0;  ///< barriers at which blocks have met
  // Instructions of warps. A warp_sum has five shuffles, and a wgmma counts as 8 mma for each warp.
  Count shuffles = 0, votes = 0, warp_barriers = 0, matrix_loads = 0, mmas = 0;
  Count flops = 0;  ///< flops of tensor cores (4096 for each mma) and gemms; no others are seen
  Count static_bytes = 0;  ///< static shared memory that a block has used, in whole words

  /// Adds all up but static_bytes, of which the greatest remains.
  Counters& operator+=(const Counters& other);

  Count requests() const {
    return loads.requests + stores.requests + atomics.requests + shared_loads.requests +
           shared_stores.requests;
  }
  /// Lanes that take part in a request, as a share of 32.
  double active() const;
  /// Bytes between the device's memory and a cache that forgets nothing during a launch.
  Count device_bytes() const { return 32 * (loads.distinct + stores.distinct + atomics.distinct); }
  /// Bytes of all requests' sectors: what would be moved without any cache.
  Count sector_bytes() const { return 32 * (loads.sectors + stores.sectors + atomics.sectors); }
  Count bank_conflicts() const { return shared_loads.conflicts + shared_stores.conflicts; }
};

/// The counters of a launch, or of several of one kernel.
struct KernelCounters {
  std::string name;               ///< a C++ name, with namespaces and parameters; or an operation's
  dim3 grid{}, block{};           ///< sizes of the first launch
  std::size_t dynamic_bytes = 0;  ///< dynamic shared memory of the first launch
  Counters counts{};

  std::size_t shared_bytes() const { return dynamic_bytes + counts.static_bytes; }
};

/// Every launch since the last reset, in the order in which they ran. Operations that are queued
/// but have not run are missing: wait for them first. Only counting builds have this.
std::vector<KernelCounters> counters();
/// The sum over launches of each kernel, in the order of their first launches.
std::vector<KernelCounters> by_kernel(const std::vector<KernelCounters>& launches);
void reset_counters();

/// A kernel's name without namespaces and parameters, but with its template's arguments.
std::string short_name(const std::string& name);

struct Occupancy {
  int blocks = 0;     ///< blocks that an SM has at once; 0: a block does not fit
  double share = 0;   ///< share of the SM's warps that these blocks have
  std::string limit;  ///< "threads", "shared memory", "registers" or "blocks"
};

/// The blocks, of these threads and bytes of shared memory, that fit on an SM of compute capability
/// 80 (A100) or 90 (H100, H200). `registers`: of a thread, as nvcc -Xptxas -v says; 0: unknown.
/// throws: Error for another compute capability
Occupancy occupancy(int compute_capability, int threads, std::size_t shared_bytes,
                    int registers = 0);

}  // namespace plangrad::cuda::emulator
