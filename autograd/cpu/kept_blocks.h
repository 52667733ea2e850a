// KeptBlocks: host memory that was freed and waits for an allocation of its size, within a bound.
// Not here: accounting by category, which Storage does. Chapter 03.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <unordered_map>

namespace plangrad::autograd {

/// Allocates blocks of host memory and keeps those that are freed. Training frees and allocates the
/// same sizes with every update; returning large blocks to the system each time would cost a page
/// fault for every 4 KiB. Any thread may call it.
///
/// The bound: after each call, blocks in use and kept blocks together are at most `slack` bytes
/// more than 3/2 of the most bytes that were ever in use. Where a call would exceed that, the
/// blocks that were freed first go back to the system: their size may never be asked for again.
class KeptBlocks {
 public:
  static constexpr std::int64_t slack = 16 << 20;

  KeptBlocks() = default;
  ~KeptBlocks() { give_back(0); }
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  /// Memory at a multiple of 64 bytes; its contents are undefined.
  /// throws: Error if the host has too little memory even after all kept blocks have been freed
  void* take(std::int64_t bytes);
  /// `bytes`: as passed to take().
  void put_back(void* data, std::int64_t bytes);

  std::int64_t bytes_in_use() const;
  std::int64_t bytes_kept() const;

 private:
  struct Block {
    void* data;
    std::int64_t size;
  };
  using Blocks = std::list<Block>;

  void give_back(std::int64_t most_kept);

  mutable std::mutex mutex_;  // a rank's message lane allocates, too
  Blocks kept_;               // the block that was freed first comes first
  std::unordered_map<std::int64_t, std::deque<Blocks::iterator>> by_size_;  // in the same order
  std::int64_t in_use_ = 0, most_in_use_ = 0, bytes_kept_ = 0;
};

}  // namespace plangrad::autograd
