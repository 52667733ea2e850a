// Watch: the checker. It compares each access to memory with earlier ones in the shadow, a record
// of each word of device and shared memory. Two accesses of actors (threads, operations, the host)
// that nothing orders are a race, in whichever order they happened this time.
// Not here: the calls by which programs tell of accesses (observed/compiled_calls.cpp).
// Chapter 12. Lamport 1978, happened before; Eraser (Savage et al. 1997) and FastTrack (Flanagan
// and Freund 2009) have such words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda/emulator/block.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/observed/addresses.h"
#include "cuda/emulator/observer.h"

namespace plangrad::cuda::emulator {

// [snippet cell]
/// The user of a word, and the time: barriers of its block so far, and __syncwarp since the last.
struct Access {
  std::uint32_t who = 0;   ///< the number of a block, another operation, or a time of the host's
  std::uint32_t code = 0;  ///< the place in the program, counted from its start
  std::uint32_t barriers = 0;
  std::uint32_t thread : 10 = 0, warp_syncs : 15 = 0, bytes : 4 = 0, wrote : 1 = 0, atomic : 1 = 0,
                         pending : 1 = 0;
};

/// The uses of four bytes: the last write, and two reads that nothing is ordered after.
struct Cell {
  Access write{};
  std::array<Access, 2> reads{};
  std::uint32_t owner = 0;    ///< the block that the cell is about, in shared memory
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

extern "C" const char __executable_start;  // where the program begins in memory: by the linker

namespace plangrad::cuda::emulator {

/// An operation, with a number for each block if it is a kernel; or the host, from one queued
/// operation to the next.
struct Actor {
  std::uint32_t first = 0;  ///< the operation's number, or its blocks' numbers from here on
  std::string name;
  int device = 0, stream = 0;  ///< 0: the host
  std::uint64_t number = 0;    ///< the operation's number in its stream
  const void* kernel = nullptr;
  dim3 grid{}, block{};
};

class Actors {
 public:
  /// The operation, or the host, acts from now on.
  void begin(const Running& operation);
  void begin_host(Clock history);
  void begin_grid(const Launch& launch);
  /// Returns the block's number among all.
  std::uint32_t begin_block(std::uint64_t number) {
    return who_ = actors_.back().first + std::uint32_t(number);
  }

  const Actor& current() const { return actors_.back(); }
  /// The current actor's access now, at this place of the program.
  Access stamp(Use use, const void* code) const;
  /// Whether the earlier access is sure to be complete before the other one.
  bool before(const Access& earlier, const Access& now) const;

  bool is_of_current(const Access& access) const { return access.who >= current().first; }
  /// Describes an access: "kernel f(float*), block (0,0,0), thread (5,0,0) on stream 2 of device
  /// 0", without the part that it has in common with the current launch.
  std::string describe(const Access& access) const;

 private:
  void add(Actor actor, Clock history);
  const Actor& find(std::uint32_t who) const;

  std::vector<Actor> actors_;
  std::uint32_t next_ = 1, who_ = 0;
  Clock history_;  // of the one that acts

  struct Answer {  // to the last question about another operation
    std::uint32_t first = 0, end = 0;
    bool before = false;
  };
  mutable Answer answer_;
};

class Watch : public Observer {
 public:
  static Watch& instance();

  std::byte* addresses() override { return global_.addresses(); }
  void release(const void* start, std::size_t bytes) override;
  void begin(const Running& operation) override;
  void end() override;
  void begin_grid(const Launch& launch) override;
  void begin_block(std::uint64_t number) override;
  void note(const void* start, std::size_t bytes, Use use, const void* code) override;
  void note_copy(void* to, const void* from, std::size_t bytes) override;
  void use(const void* start, std::size_t bytes, Use use, const void* code, bool all) override;

 private:
  struct Fault {
    const char* what = nullptr;  ///< the kind of fault, or what to do instead
    Access other{};
  };

  /// The shadow of this processor thread's shared memory.
  static SharedShadow& shared();
  std::unique_lock<std::mutex> begin_host();
  void use_in_kernel(Block& block, std::uintptr_t address, std::size_t bytes, Use use,
                     const void* code, bool all);
  void use_by_host(std::uintptr_t address, std::size_t bytes, Use use, const void* code);
  /// Checks an access; false if something is wrong, which it reports.
  bool watch(std::uintptr_t address, std::size_t bytes, Use use, const void* code);
  Cell* find_cell(std::uintptr_t address, std::uint32_t who);
  std::optional<Fault> check(Cell& cell, Use use, const Access& now);
  bool is_allocated(std::uintptr_t address, std::size_t bytes);
  std::string explain(const Fault& fault, std::uintptr_t address, Use use, const Access& now);
  std::string describe(std::uintptr_t address) const;
  void fail(const Fault& fault, std::uintptr_t address, Use use, const Access& now);

  std::mutex turn_;  // held by the actor
  GlobalShadow global_;
  Actors actors_;
  Allocation last_allocation_;
  bool failed_ = false;  // the actor has failed, and reports nothing more
};

/// Describes a place in the program: "(file.cu:12)", or "" if that isn't known.
std::string line_of(std::uint32_t code);

}  // namespace plangrad::cuda::emulator
