// The addresses that observers know: those of devices' memory, with a record for each few bytes of
// it, and those of the static shared memory of the block that a processor thread runs.
// Not here: what the records mean (checked/watch.h, counted/counter.h).
// System V ABI, thread-local storage: a program's variables of one thread are one segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/kernel_language.h"

namespace plangrad::cuda::emulator {

/// Reserves addresses, which have memory from the system once they are used.
std::byte* reserve(std::size_t bytes, bool usable);
/// Gives the memory of whole pages back; they are zero when they are used again.
void give_back(void* start, std::size_t bytes);

/// Records of the addresses of all arenas, one for each `unit` bytes; zero until used.
template <class Record, std::size_t unit>
class DeviceRecords {
 public:
  DeviceRecords()
      : start_(reinterpret_cast<std::uintptr_t>(reserve(bytes, false))),
        records_(reinterpret_cast<Record*>(reserve(bytes / unit * sizeof(Record), true))) {}

  /// Returns the addresses of the next arena.
  std::byte* addresses() {
    return reinterpret_cast<std::byte*>(start_ + std::exchange(used_, used_ + arena_bytes));
  }
  bool contains(std::uintptr_t address) const { return address - start_ < bytes; }
  Record* at(std::uintptr_t address) const { return records_ + (address - start_) / unit; }
  /// Forgets whole pages.
  void forget(std::uintptr_t start, std::size_t count) {
    give_back(at(start), count / unit * sizeof(Record));
  }

 private:
  static constexpr std::size_t bytes = 65 * arena_bytes;  // of 64 devices, and pinned memory
  const std::uintptr_t start_;
  Record* const records_;
  std::size_t used_ = 0;
};

struct Range {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  bool contains(std::uintptr_t address) const { return address - start < bytes; }
};

/// The variables of this processor thread, among them static shared memory, from a multiple of 4.
Range static_shared();

/// Calls visit(range) for each of CUDA's variables, which are among those and no shared memory.
template <class Visit>
void visit_language_variables(Visit visit) {
  auto one = [&](const auto& variable) {
    visit(Range{reinterpret_cast<std::uintptr_t>(&variable), sizeof variable});
  };
  one(threadIdx);
  one(blockIdx);
  one(blockDim);
  one(gridDim);
  one(dynamic_shared_memory);
}

}  // namespace plangrad::cuda::emulator
