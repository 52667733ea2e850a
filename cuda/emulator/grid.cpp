// The blocks of a grid, one after the other, and their dynamic shared memory.
// Not here: the threads of a block (block.cpp), and when a launch's turn comes (stream.cpp).
// CUDA C++ Programming Guide, thread hierarchy and shared memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>

#include "autograd/error.h"
#include "cuda/emulator/block.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/kernel_language.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/sanitizer.h"

namespace plangrad::cuda::emulator {

namespace {

constexpr std::size_t guard_bytes = 65536;  // a multiple of every processor's page size
constexpr std::size_t room = (max_shared_bytes + guard_bytes) / guard_bytes * guard_bytes;

/// A thread's dynamic shared memory. It ends where an unmapped page begins.
class SharedMemory {
 public:
  SharedMemory() {
    void* start = mmap(nullptr, room + guard_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PG_CHECK(start != MAP_FAILED, "emulator: no room for shared memory");
    end_ = static_cast<std::byte*>(start) + room;
    mprotect(end_, guard_bytes, PROT_NONE);
  }
  ~SharedMemory() { munmap(end_ - room, room + guard_bytes); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Provides `bytes`, 16-byte aligned; NaN until written. Those that alignment adds are poisoned.
  std::byte* provide(std::size_t bytes) {
    std::byte* start = end_ - (bytes + 15) / 16 * 16;
    unpoison(start, end_ - start);
    std::memset(start, 0xFF, end_ - start);
    poison(start + bytes, end_ - start - bytes);
    return start;
  }

 private:
  std::byte* end_;
};

/// The numbers of a grid's blocks, in the order in which they run.
class Blocks {
 public:
  explicit Blocks(std::uint64_t count) : count_(count), order_(settings().order) {
    if (order_ != Order::random) return;
    shuffled_.resize(count);
    std::iota(shuffled_.begin(), shuffled_.end(), 0u);
    std::shuffle(shuffled_.begin(), shuffled_.end(), std::mt19937_64(settings().seed));
  }
  std::uint64_t operator[](std::uint64_t i) const {
    if (order_ == Order::random) return shuffled_[i];
    return order_ == Order::forward ? i : count_ - 1 - i;
  }

 private:
  std::uint64_t count_;
  Order order_;
  std::vector<std::uint32_t> shuffled_;
};

/// AddressSanitizer guards static arrays, not thread_local ones. So __shared__ is plain static
/// there, and one grid runs at a time.
std::unique_lock<std::mutex> turn() {
  static std::mutex one_grid;
  return has_address_sanitizer ? std::unique_lock(one_grid) : std::unique_lock<std::mutex>();
}

}  // namespace

bool run_grid(const Launch& launch) {
  static thread_local SharedMemory shared_memory;
  std::unique_lock<std::mutex> lock = turn();
  prepare_thread();
  dynamic_shared_memory = shared_memory.provide(launch.shared_bytes);
  const dim3& grid = launch.grid;
  std::uint64_t count = std::uint64_t{grid.x} * grid.y * grid.z;
  Blocks order(count);
  Block block(launch);
  if (observer) observer->begin_grid(launch);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto n = order[i];
    if (observer) observer->begin_block(n);
    auto x = unsigned(n % grid.x), y = unsigned(n / grid.x % grid.y);
    if (!block.run({x, y, unsigned(n / grid.x / grid.y)})) return false;
  }
  return true;
}

}  // namespace plangrad::cuda::emulator
