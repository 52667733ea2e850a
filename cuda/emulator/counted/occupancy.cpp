// The limits of two kinds of SM, and the least of them.
// Not here: clusters, and shared memory that a kernel leaves to the cache.
// CUDA C++ Programming Guide, technical specifications per compute capability.
#include "cuda/emulator/counted/occupancy.h"

#include "autograd/error.h"

namespace plangrad::cuda::emulator {

namespace {

constexpr int most_warps = 64, most_blocks = 32, registers_of_sm = 65536;
constexpr std::size_t reserved_bytes = 1024;  // of shared memory for each block, by the system

std::size_t shared_bytes_of_sm(int compute_capability) {
  PG_CHECK(compute_capability == 80 || compute_capability == 90,
           "occupancy: expected compute capability 80 or 90, got ", compute_capability);
  return (compute_capability == 80 ? 164 : 228) * 1024;
}

constexpr std::size_t round_up(std::size_t x, std::size_t unit) {
  return (x + unit - 1) / unit * unit;
}

}  // namespace

Occupancy occupancy(int compute_capability, int threads, std::size_t shared_bytes, int registers) {
  const std::size_t all_shared = shared_bytes_of_sm(compute_capability);
  const int warps = (threads + 31) / 32;
  Occupancy result{most_blocks, 0, "blocks"};
  auto limit = [&](std::size_t blocks, const char* what) {
    if (static_cast<int>(blocks) < result.blocks) {
      result.blocks = static_cast<int>(blocks);
      result.limit = what;
    }
  };
  limit(most_warps / warps, "threads");
  limit(all_shared / round_up(shared_bytes + reserved_bytes, 128), "shared memory");
  // A warp gets registers 256 at a time, and each of an SM's four parts has a quarter of them.
  if (registers > 0)
    limit(registers_of_sm / 4 / round_up(32 * registers, 256) * 4 / warps, "registers");
  result.share = static_cast<double>(result.blocks * warps) / most_warps;
  return result;
}

}  // namespace plangrad::cuda::emulator
