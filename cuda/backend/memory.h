// Memory of a device: allocation in the order of one stream, mostly without calls of CUDA, and
// copies between the device and ordinary host memory through pinned memory, the only host memory
// that the device can read and write while the host continues.
// Not here: accounting by category, which Storage does; copies within the device.
// CUDA Runtime API, memory management; chapters 03 and 13.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "cuda/launch/runtime.h"

namespace plangrad::cuda {

/// Keeps freed blocks for later allocations. Other blocks come from the device's pool, which gives
/// nothing back before it is told to: no allocation and no free waits for the device, or for other
/// devices whose work may wait for this rank. A block may be reused while kernels that use it are
/// still queued: kernels of the new owner are queued after them, on the same stream. Before memory
/// is freed that other streams use, this stream must wait for their work.
/// Any thread may allocate and free.
///
/// A thread that holds back work, to queue it later, must announce it: its work may use blocks that
/// any thread frees from then on, so only that thread gets them until the work is queued.
class CachingAllocator {
 public:
  /// Without `keeps_blocks`, each call is a call of CUDA, so that the emulator finds memory that is
  /// used after it was freed. The device must be current.
  CachingAllocator(int device, cudaStream_t stream, bool keeps_blocks);
  ~CachingAllocator() { give_back(take_all()); }

  /// throws: Error that names the requested bytes, the bytes in use and the device, if memory is
  /// short even after all kept blocks have been freed
  void* allocate(std::int64_t bytes);
  /// `bytes`: as passed to allocate(). Does not throw: the device's next call reports its errors.
  void free(void* data, std::int64_t bytes) noexcept;

  /// Opens the device's pool to all GPUs that can reach it: NCCL sends straight from the memory of
  /// one rank to another's, if both are in one process.
  void open_to_peers();

  /// Announces that the calling thread holds back work from now on; only one thread may at a time.
  void hold_back();
  /// Announces that the work has been queued, or never will be.
  void catch_up() noexcept;

  std::int64_t bytes_in_use() const { return in_use_; }
  std::int64_t bytes_kept() const { return bytes_kept_; }

 private:
  std::int64_t block_bytes(std::int64_t bytes) const;
  // Kept blocks by their size. take() returns the lowest address: work that repeats then gets the
  // same blocks again, in whatever order they were freed, and graphs.h can launch its graph again.
  using Blocks = std::unordered_map<std::int64_t, std::set<void*>>;
  void* take(Blocks& blocks, std::int64_t size);
  void put_back(void* block, std::int64_t size);
  Blocks take_all();
  void give_back(const Blocks& all) const;

  const int device_;
  const cudaStream_t stream_;
  const bool keeps_blocks_;
  const cudaMemPool_t pool_;
  std::mutex mutex_;
  Blocks kept_, freed_late_;  // freed_late_: freed while a thread holds back work
  std::thread::id holds_back_{};
  std::atomic<std::int64_t> in_use_ = 0, bytes_kept_ = 0;  // written under the mutex
};

/// Copies through slots of pinned memory, used in turn: while the device copies one slot, the host
/// fills or empties another. For one thread at a time, and the device current at the first copy.
class Staging {
 public:
  explicit Staging(std::int64_t slot_bytes = 1 << 20) : slot_bytes_(slot_bytes) {}
  /// Returns when `source` may be changed; waits for the stream only if all slots are in use.
  void to_device(void* target, const void* source, std::int64_t bytes, cudaStream_t stream);
  /// Makes all slots, so that copies allocate none: that may wait for other devices.
  void reserve();
  /// Returns once `target` has been written.
  void to_host(void* target, const void* source, std::int64_t bytes, cudaStream_t stream);

 private:
  /// Pinned memory, and an event that marks the end of the last copy that used it.
  struct Slot {
    explicit Slot(std::int64_t bytes) : memory(bytes) {}
    Pinned memory;
    Event done;
  };
  Slot& free_slot();

  const std::int64_t slot_bytes_;
  std::array<std::optional<Slot>, 16> slots_;
  std::size_t next_ = 0;
};

}  // namespace plangrad::cuda
