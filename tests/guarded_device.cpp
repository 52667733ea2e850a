// The CPU's kernels over memory that mprotect locks whenever none of them runs.
// Not here: whether it does (tests/autograd/guarded_device_test.cpp).
#include "tests/guarded_device.h"

#include <sys/mman.h>

#include <map>

#include "autograd/cpu/cpu_backend.h"

namespace plangrad::tests {

using namespace autograd;

namespace {

/// One range of addresses, in blocks, that is accessible only while somebody has unlocked it.
class Arena {
 public:
  explicit Arena(std::int64_t bytes) : size_(bytes) {
    void* start =
        mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PG_CHECK(start != MAP_FAILED, "guarded device: no room for ", size_, " bytes");
    start_ = static_cast<std::byte*>(start);
  }
  ~Arena() { munmap(start_, size_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Takes the first gap that is wide enough.
  void* allocate(std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    std::int64_t wanted = (bytes + 64) / 64 * 64, at = 0;
    for (const auto& [offset, taken] : taken_) {
      if (offset - at >= wanted) break;
      at = offset + taken;
    }
    PG_CHECK(at + wanted <= size_, "guarded device: ", size_, " bytes are full");
    taken_[at] = wanted;
    return start_ + at;
  }
  void free(void* data) {
    std::lock_guard lock(mutex_);
    PG_CHECK(taken_.erase(static_cast<std::byte*>(data) - start_) == 1,
             "guarded device: freed what was not allocated");
  }

  // Kernels call each other, and several threads call them; the outermost call counts.
  void unlock() {
    std::lock_guard lock(mutex_);
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void lock() {
    std::lock_guard lock(mutex_);
    if (--depth_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int access) {
    PG_CHECK(mprotect(start_, size_, access) == 0, "guarded device: mprotect failed");
  }

  std::byte* start_;
  std::int64_t size_;
  std::map<std::int64_t, std::int64_t> taken_;  // offset -> bytes
  std::mutex mutex_;
  int depth_ = 0;
};

/// The CPU's kernels, in an arena that is unlocked while one is called.
class GuardedBackend : public CpuBackend {
 public:
  explicit GuardedBackend(std::int64_t bytes) : arena_(bytes) {}

  const char* name() const override { return "guarded"; }
  void* allocate(std::int64_t bytes) override { return arena_.allocate(bytes); }
  void free(void* data, std::int64_t) override { arena_.free(data); }

  void copy_from_host(const void* source, Out y) override {
    const Open open(arena_);
    CpuBackend::copy_from_host(source, y);
  }
  void copy_to_host(In x, void* target) override {
    const Open open(arena_);
    CpuBackend::copy_to_host(x, target);
  }

#define PG_KERNEL(name, ...)              \
  override {                              \
    const Open open(arena_);              \
    return CpuBackend::name(__VA_ARGS__); \
  }
#include "autograd/kernels.h"
#undef PG_KERNEL

 private:
  /// Unlocks the arena for as long as it lives.
  struct Open {
    Arena& arena;
    explicit Open(Arena& arena) : arena(arena) { arena.unlock(); }
    ~Open() { arena.lock(); }
  };

  Arena arena_;
};

}  // namespace

DevicePtr guarded_device(std::int64_t bytes) {
  return std::make_shared<Device>(std::make_shared<GuardedBackend>(bytes));
}

}  // namespace plangrad::tests
