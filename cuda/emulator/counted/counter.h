// Counter: the observer of the counting build. It puts requests together, the memory instructions
// of a warp, from the accesses of its lanes, and turns them into counters.
// Not here: what the counters mean (counters.h).
// Chapter 12; CUDA C++ Programming Guide, device memory accesses and shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/emulator/block.h"
#include "cuda/emulator/counted/counters.h"
#include "cuda/emulator/observed/addresses.h"
#include "cuda/emulator/observer.h"

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
  int lines() const;  ///< the number of lines of 128 bytes
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

class Counter : public Observer {
 public:
  static Counter& instance();

  std::byte* addresses() override { return device_.addresses(); }
  void release(const void*, std::size_t) override {}
  void begin(const Running& operation) override;
  void end() override;
  void begin_grid(const Launch& launch) override;
  void begin_block(std::uint64_t number) override;
  void note(const void* start, std::size_t bytes, Use use, const void* code) override;
  void note_copy(void* to, const void* from, std::size_t bytes) override;
  void use(const void* start, std::size_t bytes, Use use, const void* code, bool all) override;
  void block_met() override;
  void warp_met(const char* operation, int instructions) override;
  void multiplied(double flops) override { counts_->flops += static_cast<Count>(flops); }

  std::vector<KernelCounters> launches();
  void reset();

 private:
  struct Sector {
    std::uint32_t loaded = 0, stored = 0, updated = 0;  // by the operation of this number, last
  };

  void add(Block& block, std::uintptr_t address, std::size_t bytes, Use use, const void* code);
  void count(AccessKind access, std::size_t bytes, const Request& request);
  void count_device(AccessKind access, std::size_t bytes, const Request& request);
  void count_shared(SharedCount& counts, std::size_t bytes, const Request& request);
  /// Counts a sector, unless the operation has used it before.
  void touch(AccessKind access, std::uintptr_t sector);
  void count_range(const void* start, std::size_t bytes, AccessKind access);
  bool is_static_shared(std::uintptr_t address);
  void take(int warp);
  void take_all();
  const std::string& name_of(const void* kernel);

  std::mutex turn_;  // held by the operation that runs
  DeviceRecords<Sector, Sectors::bytes> device_;
  std::uint32_t operation_ = 0;  // its number
  std::vector<KernelCounters> launches_;
  Counters* counts_ = nullptr;  // of the operation that runs
  std::array<WarpRequests, Block::max_threads / Block::warp_size> warps_;
  Range dynamic_;
  std::vector<bool> used_words_;  // of static shared memory
  std::map<const void*, std::string> names_;
};

}  // namespace plangrad::cuda::emulator
