// Requests: the memory instructions of a warp, put together from the accesses of its lanes, and the
// sectors and passes that they take.
// Not here: which accesses count, and where their counts go (counter.h).
// CUDA C++ Programming Guide, device memory accesses and shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plangrad::cuda::emulator {

enum class AccessKind { load, store, atomic, shared_load, shared_store };

/// The addresses of the lanes that take part, each of as many `bytes`, at most 16.
struct Request {
  std::uint32_t lanes = 0;
  std::array<std::uintptr_t, 32> at{};
};

/// The different sectors of a request, in ascending order.
struct Sectors {
  static constexpr std::uintptr_t bytes = 32;
  std::array<std::uintptr_t, 64> numbers;  ///< the address / 32
  int count = 0;
  int lines() const;  ///< of 128 bytes
};
Sectors sectors_of(const Request& request, std::size_t bytes);

/// Passes through shared memory, and those of them that a request without conflicts would not need.
struct Passes {
  int count = 0, conflicts = 0;
};
Passes passes_of(const Request& request, std::size_t bytes);

/// The accesses of a warp since its lanes last met.
class WarpRequests {
 public:
  void add(int lane, AccessKind access, std::uintptr_t address, std::size_t bytes,
           const void* code);

  /// Calls visit(access, bytes, request) for each request, and forgets all of them.
  template <class Visit>
  void take(Visit visit) {
    for (Instruction& each : instructions_) {
      for (const Request& request : each.requests) visit(each.access, each.bytes, request);
      each.requests.clear();
      each.times = {};
    }
  }
  /// Forgets the instructions, too, for another kernel.
  void clear() { instructions_.clear(); }

 private:
  struct Instruction {
    const void* code;
    AccessKind access;
    std::size_t bytes;
    std::array<std::uint32_t, 32> times{};  // by lane
    std::vector<Request> requests{};
  };
  Instruction& find(AccessKind access, std::size_t bytes, const void* code);

  std::vector<Instruction> instructions_;
  std::size_t next_ = 0;  // probably
};

}  // namespace plangrad::cuda::emulator
