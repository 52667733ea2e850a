// Memory of a device: blocks in the order of one stream, without a call of CUDA for most of them,
// and copies from and to ordinary host memory by way of pinned memory, which alone the device can
// read and write while the host does something else.
// Not here: accounting by category, which Storage does; copies within the device.
// CUDA Runtime API, memory management; chapters 03 and 13.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda/launch/runtime.h"

namespace paragrad::cuda {

/// A freed block is kept for the next allocation of its size, which may come while kernels that use
/// the block are still queued: those of the new owner are queued behind them, on the same stream.
/// Work on other streams must have been waited for by this one before its memory is freed.
/// Any thread may allocate and free.
///
/// A thread that holds back work, to queue it later, tells: blocks that any thread frees from then
/// on may be used by that work, so until it is queued, only that thread gets them.
class CachingAllocator {
 public:
  /// Without `keeps_blocks`, each call is one of CUDA: the emulator then finds what is used after
  /// it was freed.
  CachingAllocator(int device, cudaStream_t stream, bool keeps_blocks);
  ~CachingAllocator();

  /// throws: Error that names the bytes asked for and in use, and the device, if they are not there
  /// after all kept blocks have been given back
  void* allocate(std::int64_t bytes);
  /// `bytes` as they were asked for. Does not throw: an error of the device shows at its next call.
  void free(void* data, std::int64_t bytes) noexcept;

  /// The calling thread begins to hold back work; only one at a time does.
  void hold_back();
  /// All that was held back has been queued, or never will be.
  void catch_up() noexcept;

  std::int64_t bytes_in_use() const { return in_use_; }
  std::int64_t bytes_kept() const { return bytes_kept_; }

 private:
  std::int64_t block_bytes(std::int64_t bytes) const;
  using Blocks = std::unordered_map<std::int64_t, std::vector<void*>>;  // by size
  void* take(Blocks& blocks, std::int64_t size);
  void put_back(void* block, std::int64_t size);
  cudaError_t ask(void** block, std::int64_t size);
  Blocks take_all();
  static void give_back(const Blocks& all);

  const int device_;
  const cudaStream_t stream_;
  const bool keeps_blocks_;
  std::mutex mutex_;
  Blocks kept_, freed_late_;  // freed_late_: while a thread holds back work
  std::thread::id holds_back_{};
  std::atomic<std::int64_t> in_use_ = 0, bytes_kept_ = 0;  // written under the mutex
};

/// Copies in slots of pinned memory, used in turn: while the device copies one, the host fills or
/// empties another. One thread at a time, for the device that is current at the first copy.
class Staging {
 public:
  /// Returns when `source` may be changed; it waits for the stream only if all slots are under way.
  void to_device(void* target, const void* source, std::int64_t bytes, cudaStream_t stream);
  /// Returns when `target` has been written.
  void to_host(void* target, const void* source, std::int64_t bytes, cudaStream_t stream);

 private:
  static constexpr std::int64_t slot_bytes = 1 << 20;
  /// Pinned memory, and when the last copy that used it has ended.
  struct Slot {
    Slot() : memory(slot_bytes) {}

    Pinned memory;
    Event done;
  };
  Slot& free_slot();

  std::array<std::optional<Slot>, 16> slots_;
  std::size_t next_ = 0;
};

}  // namespace paragrad::cuda
