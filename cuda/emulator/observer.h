// Observer: what the checked and the counting build have in common. The emulator tells it of every
// access to device memory and to shared memory, and of every event that orders accesses. Clock: the
// operations that happened before an operation.
// Not here: the two observers (checked/, counted/); other builds have none, and skip all of this.
// Chapter 12; Fidge 1988, Mattern 1989, vector clocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plangrad::cuda::emulator {

class Clock {
 public:
  /// Whether operation `number` of the stream happened before.
  bool covers(int stream, std::uint64_t number) const { return at(stream) >= number; }
  std::uint64_t at(int stream) const {
    return stream < int(reached_.size()) ? reached_[stream] : 0;
  }
  void set(int stream, std::uint64_t number) {
    reached_.resize(std::max(reached_.size(), stream + std::size_t{1}));
    reached_[stream] = number;
  }
  void join(const Clock& other) {
    for (int s = 0; s < int(other.reached_.size()); ++s) set(s, std::max(at(s), other.at(s)));
  }

 private:
  std::vector<std::uint64_t> reached_;
};

struct Launch;

/// How memory is used.
struct Use {
  bool reads = false, writes = false;
  bool atomic = false;
  bool moves = false;    ///< reads what need not have been written
  bool pending = false;  ///< writes until the thread has waited for its asynchronous copies
  bool arrives = false;  ///< a write that was pending
};
constexpr Use reading{.reads = true}, writing{.writes = true}, moving{.reads = true, .moves = true};
constexpr Use pending{.writes = true, .pending = true}, arriving{.writes = true, .arrives = true};

/// An operation that runs: the `number`-th of a stream.
struct Running {
  const char* name = "";
  int device = 0, stream = 0;
  std::uint64_t number = 0;
  const Clock* history = nullptr;
};

class Observer {
 public:
  virtual ~Observer() = default;

  /// Returns addresses for an arena. Only uses of these, and of shared memory, are watched.
  virtual std::byte* addresses() = 0;
  /// Says that these bytes will be freed, and the pages that hold them vanish.
  virtual void release(const void* start, std::size_t bytes) = 0;

  /// From now until `end`, only the operation uses memory.
  virtual void begin(const Running& operation) = 0;
  virtual void end() = 0;
  virtual void begin_grid(const Launch& launch) = 0;
  virtual void begin_block(std::uint64_t number) = 0;

  /// Notes that the running operation, the host or the kernel's thread uses memory.
  /// `code`: the place in the program, if that is known.
  virtual void note(const void* start, std::size_t bytes, Use use, const void* code) = 0;
  virtual void note_copy(void* to, const void* from, std::size_t bytes) = 0;

  /// An access by code that was compiled to tell of it: a kernel's thread's, or the host's. `all`:
  /// also of memory that is not the device's, which kernels must not touch.
  virtual void use(const void* start, std::size_t bytes, Use use, const void* code, bool all) = 0;

  /// All threads of the running block, or all lanes of the running thread's warp, have met; a GPU
  /// would have needed so many instructions.
  virtual void block_met() {}
  virtual void warp_met(const char* /*operation*/, int /*instructions*/) {}
  /// The running operation is a matrix product of so many operations.
  virtual void multiplied(double /*flops*/) {}
};

/// The observer of this build; null except in checked and counting builds, each of which makes one.
inline constinit Observer* observer = nullptr;

Observer& observer_of_build();

inline void note(const void* start, std::size_t bytes, Use use, const void* code = nullptr) {
  if (observer) observer->note(start, bytes, use, code);
}
inline void note_copy(void* to, const void* from, std::size_t bytes) {
  if (observer) observer->note_copy(to, from, bytes);
}

/// While one lives, its processor thread does the emulator's own work, which is not watched.
class Unwatched {
 public:
  Unwatched() { ++depth; }
  ~Unwatched() { --depth; }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

  static inline constinit thread_local int depth = 0;
};

}  // namespace plangrad::cuda::emulator
