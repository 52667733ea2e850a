// CpuBackend: implements every kernel on the host's processor, with a limited number of threads.
// KeptBlocks: its memory that was freed and waits for an allocation of its size, within a bound.
// Not here: the kernels, which are grouped in the .cpp files of this folder, and accounting by
// category, which Storage does. Chapter 03.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <unordered_map>

#include "autograd/backend.h"

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

  ~KeptBlocks() { give_back(0); }

  /// Memory at a multiple of 64 bytes; its contents are undefined.
  /// throws: Error if the host has too little memory even after all kept blocks have been freed
  void* take(std::int64_t bytes);
  /// `bytes`: as passed to take().
  void put_back(void* data, std::int64_t bytes);

  std::int64_t bytes_in_use() const { return in_use_; }
  std::int64_t bytes_kept() const { return bytes_kept_; }

 private:
  struct Block {
    void* data;
    std::int64_t size;
  };
  using Blocks = std::list<Block>;

  void give_back(std::int64_t most_kept);

  std::mutex mutex_;  // a rank's message lane allocates, too
  Blocks kept_;       // the block that was freed first comes first
  std::unordered_map<std::int64_t, std::deque<Blocks::iterator>> by_size_;  // in the same order
  std::atomic<std::int64_t> in_use_ = 0, bytes_kept_ = 0;  // written under the mutex
  std::int64_t most_in_use_ = 0;
};

class CpuBackend : public Backend {
 public:
  const char* name() const override { return "cpu"; }
  void* allocate(std::int64_t bytes) override { return blocks_.take(bytes); }
  void free(void* data, std::int64_t bytes) override { blocks_.put_back(data, bytes); }
  void copy_from_host(const void* source, Out y) override;
  void copy_to_host(In x, void* target) override;
  void without_values(const std::function<void()>& work) override;

#define PG_KERNEL(...) override
#include "autograd/kernels.h"
#undef PG_KERNEL

 private:
  KeptBlocks blocks_;
};

/// Makes a device that computes on the host; each call makes a new one.
DevicePtr cpu_device();

/// Limits the threads of all kernels that the calling thread runs from now on, including oneDNN's
/// products. Ranks that are threads of one process share its cores this way. Without OpenMP, a
/// kernel has one thread, whatever the limit.
/// throws: Error if n is not positive
void set_compute_threads(int n);

/// Returns the calling thread's limit; until it is set, OpenMP's default, which is all cores.
int compute_threads();

}  // namespace plangrad::autograd
