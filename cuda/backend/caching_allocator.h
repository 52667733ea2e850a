// CachingAllocator: device memory in the order of one stream, without a call of CUDA for most
// allocations. Not here: accounting by category, which Storage does.
// CUDA Runtime API, memory management; chapter 03 has the CPU's, of the same idea.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace paragrad::cuda {

/// A freed block is kept for the next allocation of its size, which may come while kernels that use
/// the block are still queued: those of the new owner are queued behind them, on the same stream.
/// Work on other streams must have been waited for by this one before its memory is freed.
/// Any thread may allocate and free.
///
/// A thread that holds back work, to queue it later, tells: what anybody frees from then on may be
/// used by that work, so until it is queued, only that thread gets such blocks.
class CachingAllocator {
 public:
  /// Without `keeps_blocks`, each call is one of CUDA: the emulator then finds what is used after
  /// it was freed.
  CachingAllocator(int device, cudaStream_t stream, bool keeps_blocks);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// throws: Error that names the bytes asked for and in use, and the device, if they are not there
  /// after all kept blocks have been given back
  void* allocate(std::int64_t bytes);
  /// `bytes` as they were asked for. Does not throw: an error of the device shows at its next call.
  void free(void* data, std::int64_t bytes) noexcept;

  /// The calling thread begins to hold back work; only one at a time does.
  void hold_back();
  /// All that was held back has been queued, or never will be.
  void catch_up() noexcept;

  std::int64_t bytes_in_use() const;
  std::int64_t bytes_kept() const;

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
  mutable std::mutex mutex_;
  Blocks kept_, freed_late_;  // freed_late_: while a thread holds back work
  std::thread::id holds_back_{};
  std::int64_t in_use_ = 0, bytes_kept_ = 0;
};

}  // namespace paragrad::cuda
