// Occupancy: the number of blocks that a streaming multiprocessor (SM) can hold at a time, and what
// limits it.
// Not here: whether more blocks would make a kernel faster.
// CUDA C++ Programming Guide, technical specifications per compute capability.
#pragma once

#include <cstddef>
#include <string>

namespace plangrad::cuda::emulator {

struct Occupancy {
  int blocks = 0;     ///< of an SM; 0: a block does not fit
  double share = 0;   ///< of the SM's warps that these blocks have
  std::string limit;  ///< "threads", "shared memory", "registers" or "blocks"
};

/// The blocks of so many threads and bytes of shared memory that fit on an SM of compute capability
/// 80 (A100) or 90 (H100, H200). `registers`: of a thread, as nvcc -Xptxas -v says; 0: unknown.
/// throws: Error for another compute capability
Occupancy occupancy(int compute_capability, int threads, std::size_t shared_bytes,
                    int registers = 0);

}  // namespace plangrad::cuda::emulator
