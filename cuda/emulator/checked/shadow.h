// The shadow: the record of earlier accesses that the checked build keeps for each word of device
// and shared memory. Not here: the rules that use it (watch.h).
// Eraser (Savage et al. 1997) and FastTrack (Flanagan and Freund 2009) have such words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulator/observed/addresses.h"

namespace plangrad::cuda::emulator {

// [snippet cell]
/// The user of a word, and the time: barriers of its block so far, and __syncwarp since the last.
struct Access {
  std::uint32_t who = 0;   ///< the number of a block, another operation, or a time of the host's
  std::uint32_t code = 0;  ///< where, from the program's start
  std::uint32_t barriers = 0;
  std::uint32_t thread : 10 = 0, warp_syncs : 15 = 0, bytes : 4 = 0, wrote : 1 = 0, atomic : 1 = 0,
                         pending : 1 = 0;
};

/// The uses of four bytes: the last write, and two reads that nothing is ordered after.
struct Cell {
  Access write{};
  std::array<Access, 2> reads{};
  std::uint32_t owner = 0;    ///< of shared memory: the block that this is about
  std::uint32_t written = 0;  ///< a bit for each byte
};
// [end snippet]

constexpr std::uintptr_t word_bytes = 4;

using GlobalShadow = DeviceRecords<Cell, word_bytes>;

/// Cells for the shared memory of the block that a processor thread runs: static, which is among
/// its thread_local variables, and dynamic.
class SharedShadow {
 public:
  SharedShadow();
  void begin_grid(const void* dynamic, std::size_t bytes);
  /// Notes CUDA's variables, which no kernel writes.
  void begin_block(std::uint32_t who);
  /// Returns the cell of an address; null if that is no shared memory.
  Cell* at(std::uintptr_t address);
  /// Describes an address: "byte 8 of dynamic shared memory".
  std::string describe(std::uintptr_t address) const;

 private:
  const Range static_ = static_shared();
  Range dynamic_;
  std::vector<Cell> static_cells_, dynamic_cells_;
};

}  // namespace plangrad::cuda::emulator
