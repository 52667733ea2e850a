// CpuBackend's use of the host: memory, with a cache of freed blocks, and the number of threads,
// which OpenMP keeps for each thread that starts a parallel loop; oneDNN asks OpenMP for it.
// Not here: accounting, which Storage does. Chapter 03.
#include "autograd/cpu/cpu_backend.h"

#include <cstdlib>
#include <cstring>

#if PARAGRAD_OPENMP
#include <omp.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARAGRAD_CACHE_BLOCKS 0  // a sanitizer must see every allocation and every free
#else
#define PARAGRAD_CACHE_BLOCKS 1
#endif

namespace paragrad::autograd {

namespace {

/// Rounds up to one of 8 sizes per power of two, so that similar sizes share blocks.
std::int64_t rounded(std::int64_t bytes) {
  std::int64_t step = 64;
  while (step * 16 < bytes) step *= 2;
  return std::max<std::int64_t>((bytes + step - 1) / step * step, 64);
}

}  // namespace

CpuBackend::~CpuBackend() {
  for (auto& [size, blocks] : blocks_)
    for (void* block : blocks) std::free(block);
}

const char* CpuBackend::name() const { return "cpu"; }

DevicePtr cpu_device() { return std::make_shared<Device>(std::make_shared<CpuBackend>()); }

// Training frees and allocates the same sizes with every update. Returning large blocks to the
// system each time would cost a page fault for every 4 KiB.
void* CpuBackend::allocate(std::int64_t bytes) {
  std::int64_t size = rounded(bytes);
  if (PARAGRAD_CACHE_BLOCKS) {
    std::lock_guard lock(mutex_);
    std::vector<void*>& blocks = blocks_[size];
    if (!blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      return block;
    }
  }
  void* block = std::aligned_alloc(64, PARAGRAD_CACHE_BLOCKS ? size : (bytes + 64) / 64 * 64);
  PG_CHECK(block, "out of memory: the host can't allocate ", bytes,
           " more bytes; use a smaller model, batch or context");
  return block;
}

void CpuBackend::free(void* data, std::int64_t bytes) {
  if (!PARAGRAD_CACHE_BLOCKS) return std::free(data);
  std::lock_guard lock(mutex_);
  blocks_[rounded(bytes)].push_back(data);
}

void CpuBackend::copy_from_host(const void* source, Out y) {
  if (y.bytes()) std::memcpy(y.raw(), source, y.bytes());
}

void CpuBackend::copy_to_host(In x, void* target) {
  if (x.bytes()) std::memcpy(target, x.raw(), x.bytes());
}

void set_compute_threads(int n) {
  PG_CHECK(n > 0, "a rank needs at least one thread, got ", n);
#if PARAGRAD_OPENMP
  omp_set_num_threads(n);
#endif
}

int compute_threads() {
#if PARAGRAD_OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace paragrad::autograd
