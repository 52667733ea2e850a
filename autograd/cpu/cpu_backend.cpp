// The CPU backend's memory, copies and number of threads. A block that was freed last is taken
// first, since it may still be in a cache of the processor; a block that was freed first is given
// back first. OpenMP keeps the number of threads for each thread that starts a parallel loop, and
// oneDNN asks OpenMP for it. Chapter 03.
#include "autograd/cpu/cpu_backend.h"

#include <cstdlib>
#include <cstring>

#include "autograd/cpu/parallel.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLANGRAD_KEEP_BLOCKS 0  // a sanitizer must see every allocation and every free
#else
#define PLANGRAD_KEEP_BLOCKS 1
#endif

#if PLANGRAD_OPENMP
#include <omp.h>
#endif

namespace plangrad::autograd {

/// Rounds up to one of 8 sizes per power of two, so that similar sizes share blocks.
static std::int64_t rounded(std::int64_t bytes) {
  if (!PLANGRAD_KEEP_BLOCKS) return (bytes + 64) / 64 * 64;  // closer, to find what is beyond
  std::int64_t step = 64;
  while (step * 16 < bytes) step *= 2;
  return std::max<std::int64_t>((bytes + step - 1) / step * step, 64);
}

void* KeptBlocks::take(std::int64_t bytes) {
  const std::int64_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  void* data = nullptr;
  if (auto& same_size = by_size_[size]; !same_size.empty()) {
    data = same_size.back()->data;
    kept_.erase(same_size.back());
    same_size.pop_back();
    bytes_kept_ -= size;
  } else {
    data = std::aligned_alloc(64, size);
    if (!data) give_back(0);
    if (!data) data = std::aligned_alloc(64, size);
    PG_CHECK(data, "out of memory: the host can't allocate ", bytes,
             " more bytes; use a smaller model, batch or context");
  }
  in_use_ += size;
  most_in_use_ = std::max<std::int64_t>(most_in_use_, in_use_);
  give_back(most_in_use_ + most_in_use_ / 2 + slack - in_use_);
  return data;
}

void KeptBlocks::put_back(void* data, std::int64_t bytes) {
  const std::int64_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  by_size_[size].push_back(kept_.insert(kept_.end(), {data, size}));
  bytes_kept_ += size;
  in_use_ -= size;
  give_back(PLANGRAD_KEEP_BLOCKS ? most_in_use_ + most_in_use_ / 2 + slack - in_use_ : 0);
}

/// Frees blocks until at most `most_kept` bytes are kept.
void KeptBlocks::give_back(std::int64_t most_kept) {
  while (bytes_kept_ > most_kept) {
    const Block& first = kept_.front();
    by_size_[first.size].pop_front();  // freed first among its size, too
    bytes_kept_ -= first.size;
    std::free(first.data);
    kept_.pop_front();
  }
}

DevicePtr cpu_device() { return std::make_shared<Device>(std::make_shared<CpuBackend>()); }

void CpuBackend::copy_from_host(const void* source, Out y) {
  if (y.bytes()) std::memcpy(y.raw(), source, y.bytes());
}

void CpuBackend::copy_to_host(In x, void* target) {
  if (x.bytes()) std::memcpy(target, x.raw(), x.bytes());
}

void CpuBackend::without_values(const std::function<void()>& work) {
  const ModeScope<bool> scope(cpu::without_values, true);
  work();
}

void set_compute_threads(int n) {
  PG_CHECK(n > 0, "a rank needs at least one thread, got ", n);
#if PLANGRAD_OPENMP
  omp_set_num_threads(n);
#endif
}

int compute_threads() {
#if PLANGRAD_OPENMP
  return std::min(omp_get_max_threads(), 1024);  // far more end OpenMP's library by a crash
#else
  return 1;
#endif
}

}  // namespace plangrad::autograd
