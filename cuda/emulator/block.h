// Block: the threads of one CUDA block, run in turn by one processor thread.
// Not here: the grid (grid.cpp), and the results of warp operations (kernel_language.h).
// CUDA C++ Programming Guide, thread hierarchy and synchronization functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/emulator/emulator.h"
#include "cuda/emulator/fiber.h"
#include "cuda/emulator/kernel_language.h"

namespace plangrad::cuda::emulator {

/// A kernel with its arguments, and the grid that it is for.
struct Launch {
  std::function<void()> kernel;
  const void* function = nullptr;  ///< names it in reports
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

/// A meeting that threads wait for: a barrier or a warp's operation, and its place in the source.
struct Place {
  const char* name = nullptr;
  std::source_location where;
  int instructions = 1;  ///< instructions that a GPU needs for it
  bool operator==(const Place& other) const {
    return where.line() == other.where.line() && same(name, other.name) &&
           same(where.file_name(), other.where.file_name());
  }
  static bool same(const char* a, const char* b) {
    return a == b || std::string_view(a) == b;  // seldom the second
  }
};

/// The copies that a thread has begun but not yet waited for, in their groups.
struct PendingCopies {
  struct Copy {
    void* to;
    const void* from;
    int group;
  };
  std::vector<Copy> copies;
  int groups = 0;  ///< committed
};

/// The time of a thread's action: barriers so far, and __syncwarp since the last barrier.
struct Moment {
  int thread;
  std::uint32_t barriers, warp_syncs;
};

/// A CUDA thread gets a stack of its own only if it waits: a carrier, which is a fiber, calls the
/// kernel for one thread after the other; when one of them waits, it keeps the carrier, and another
/// carrier takes the next thread.
class Block {
 public:
  static constexpr int max_threads = 1024;
  static constexpr int warp_size = 32;

  explicit Block(const Launch& launch);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// The block that this processor thread runs; null outside kernels.
  static Block* current();

  /// Runs all threads of the block at `index` of the grid. False if one of them met a fault.
  bool run(uint3 index);

  // The thread that runs calls these.
  /// Waits until all threads of the block are here.
  void barrier(Place place);
  /// Leaves `record` and waits for all lanes of the warp; the last of them calls `carry_out` on the
  /// 32 records.
  void warp_operation(Place place, void* record, void (*carry_out)(void* const* records));
  /// Ends the block after a fault: none of its threads continues, and what they own is lost.
  [[noreturn]] void abandon();
  /// Describes the thread: "kernel f, block (0,0,0) of (1,1,1), thread (5,0,0) of (32,1,1)".
  std::string describe() const;
  /// The running thread, and the number of meetings so far of its block, and of its warp.
  Moment moment() const { return {thread_, barriers_, syncs_[thread_ / warp_size]}; }
  /// Whether the address is the running thread's own: of its stack, or of the launch's arguments.
  bool owns(const void* address) const;
  /// Notes that all lanes of the warp have met, and see what each of them has written.
  void count_sync() { ++syncs_[thread_ / warp_size]; }
  PendingCopies& pending_copies();
  bool overflowed_at(const void* address) const;

 private:
  struct Meeting {  // of a warp's lanes
    Place place;
    std::uint32_t arrived = 0;
    std::array<void*, warp_size> records{};
  };

  void make_all_runnable();
  void make_runnable(int warp, std::uint32_t lanes);
  int pick();
  int next_warp() const;
  void set_thread(int thread);
  void go_to(int thread);
  void wait();
  void carry();
  Context* take_carrier();
  std::string who_waits() const;

  const Launch& launch_;
  int threads_;
  int warps_;
  Order order_;
  std::uint64_t random_;

  // Bit l of runnable_[w]: thread 32 w + l can continue; bit w of warps_runnable_: any of them can.
  std::array<std::uint32_t, max_threads / warp_size> runnable_{};
  std::uint32_t warps_runnable_ = 0;
  int warp_ = 0;    // the warp whose lanes are picked first
  int thread_ = 0;  // the thread that runs now
  int ended_ = 0;
  bool failed_ = false;

  Context home_;
  Context* running_ = &home_;
  std::vector<Context*> suspended_;  // by thread; null: not begun, or ended
  std::vector<Context*> idle_;       // carriers that wait for a thread
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::size_t started_ = 0;  // the number of carriers; the other fibers are spare

  Place barrier_place_;
  int at_barrier_ = 0;
  std::uint32_t barriers_ = 0;         // that all threads have passed
  std::vector<Meeting> meetings_;      // by warp
  std::vector<std::uint32_t> syncs_;   // by warp: __syncwarp since the last barrier
  std::vector<PendingCopies> copies_;  // by thread; empty if none has begun any
};

/// Runs all blocks of a grid, one after the other. False if one met a fault; the rest then do not
/// run.
bool run_grid(const Launch& launch);

}  // namespace plangrad::cuda::emulator
