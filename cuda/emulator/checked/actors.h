// Actors: the threads and operations that use memory, and which of two uses happened first.
// Not here: the bytes that they use (watch.h).
// Lamport 1978, happened before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulator/block.h"
#include "cuda/emulator/checked/shadow.h"
#include "cuda/emulator/observer.h"

extern "C" const char __executable_start;  // where the program begins in memory: by the linker

namespace plangrad::cuda::emulator {

/// An operation, with a number for each block if it is a kernel; or the host, from one queued
/// operation to the next.
struct Actor {
  std::uint32_t first = 0;  ///< its number, or its blocks' numbers from here on
  std::string name;
  int device = 0, stream = 0;  ///< 0: the host
  std::uint64_t number = 0;    ///< in its stream
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

}  // namespace plangrad::cuda::emulator
