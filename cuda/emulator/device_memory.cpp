// Arenas, where each allocation ends, to 256 bytes, at an unmapped page; and all allocations.
// Not here: the calls of CUDA (runtime_memory.cpp).
// CUDA Runtime API, memory management. Electric Fence (Perens 1987) is the model.
#include "cuda/emulator/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "autograd/error.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/sanitizer.h"

namespace plangrad::cuda::emulator {

namespace {

constexpr std::size_t alignment = 256;
constexpr auto untouched = std::byte{0xFF};

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t page_bytes() {
  static const std::size_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

/// The pages that hold an allocation, and the bytes of them before it.
struct Pages {
  std::size_t bytes, before;
  explicit Pages(std::size_t wanted)
      : bytes(round_up(wanted, page_bytes())), before(bytes - round_up(wanted, alignment)) {}
};

bool all_untouched(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte b) { return b == untouched; });
}

std::byte* reserve_addresses() {
  void* result =
      mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PG_CHECK(result != MAP_FAILED, "emulator: no room for the addresses of a device");
  return static_cast<std::byte*>(result);
}

}  // namespace

std::byte* Arena::allocate(std::size_t bytes) {
  Unwatched own_work;
  void* result = nullptr;
  if (has_address_sanitizer) {
    PG_CHECK(posix_memalign(&result, alignment, bytes) == 0, "emulator: no memory for ", bytes,
             " bytes");
    return static_cast<std::byte*>(std::memset(result, int(untouched), bytes));
  }
  if (!start_) start_ = next_ = observer ? observer->addresses() : reserve_addresses();
  Pages pages(bytes);
  PG_CHECK(next_ + pages.bytes + page_bytes() <= start_ + arena_bytes,
           "emulator: the 64 GiB of addresses of a device are used up; they are not used again "
           "after a free, so keep memory instead of freeing it at each step");
  std::byte* first = next_;
  PG_CHECK(mprotect(first, pages.bytes, PROT_READ | PROT_WRITE) == 0, "emulator: no memory for ",
           bytes, " bytes");
  next_ += pages.bytes + page_bytes();
  std::memset(first, int(untouched), pages.bytes);
  return first + pages.before;
}

bool Arena::free(std::byte* start, std::size_t bytes) {
  if (has_address_sanitizer) {
    std::free(start);
    return true;
  }
  Pages pages(bytes);
  std::byte* first = start - pages.before;
  bool intact = all_untouched(first, start) && all_untouched(start + bytes, first + pages.bytes);
  void* gone = mmap(first, pages.bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  PG_CHECK(gone == first, "emulator: could not unmap freed memory");
  return intact;
}

bool Arena::contains(const void* address) const {
  return start_ && address >= start_ && address < start_ + arena_bytes;
}

using autograd::text;

namespace {

struct Holdings {
  Arena arena;
  std::size_t in_use = 0;
};

struct Memory {
  std::mutex mutex;
  std::map<const std::byte*, Allocation> allocations;  // by start; freed ones too, to name them
  std::map<int, Holdings> devices;
  int made = 0;

  /// The last allocation that starts at or below the address.
  const Allocation* below(const void* address) const {
    auto above = allocations.upper_bound(static_cast<const std::byte*>(address));
    return above == allocations.begin() ? nullptr : &std::prev(above)->second;
  }
  bool in_an_arena(const void* address) const {
    return std::any_of(devices.begin(), devices.end(),
                       [&](const auto& entry) { return entry.second.arena.contains(address); });
  }
};

/// Never destroyed: programs free memory from destructors of their own.
Memory& memory() {
  static Memory& instance = *new Memory;
  return instance;
}

bool is_inside(const Allocation& allocation, const void* address) {
  return address >= allocation.start && address < allocation.start + allocation.bytes;
}

std::string show(const Allocation& a) {
  std::string where = a.device == pinned_host ? "pinned host memory" : text("device ", a.device);
  return text("allocation ", a.number, " (", where, ", ", a.bytes, " bytes)");
}

}  // namespace

void* allocate(int device, std::size_t bytes) {
  std::lock_guard lock(memory().mutex);
  Holdings& holdings = memory().devices[device];
  bool limited = device != pinned_host;
  if (limited && holdings.in_use + bytes > std::size_t(settings().device_bytes)) return nullptr;
  std::byte* start = holdings.arena.allocate(bytes);
  holdings.in_use += bytes;
  memory().allocations[start] = {device, ++memory().made, start, bytes, false};
  return start;
}

/// AddressSanitizer names freed memory itself, and may use its addresses again.
bool release(void* start) {
  if (observer)
    if (std::optional<Allocation> found = find_allocation(start))
      observer->release(found->start, found->bytes);
  std::unique_lock lock(memory().mutex);
  auto found = memory().allocations.find(static_cast<std::byte*>(start));
  std::string fault;
  if (found == memory().allocations.end() || found->second.freed) {
    fault = text(start, " is freed twice");
  } else {
    Allocation& allocation = found->second;
    Holdings& holdings = memory().devices[allocation.device];
    holdings.in_use -= allocation.bytes;
    allocation.freed = true;
    if (!holdings.arena.free(allocation.start, allocation.bytes))
      fault = text("something was written just before or behind ", show(allocation));
    if (has_address_sanitizer) memory().allocations.erase(found);
  }
  lock.unlock();
  if (!fault.empty()) report(fault);
  return fault.empty();
}

std::optional<Allocation> find_allocation(const void* address) {
  std::lock_guard lock(memory().mutex);
  const Allocation* found = memory().below(address);
  if (!found || found->freed || !is_inside(*found, address)) return {};
  return *found;
}

// These two are called after an invalid access, by a thread that may hold the lock.

bool is_device_address(const void* address) {
  std::unique_lock lock(memory().mutex, std::try_to_lock);
  return lock && memory().in_an_arena(address);
}

std::string describe_address(const void* address) {
  std::unique_lock lock(memory().mutex, std::try_to_lock);
  if (!lock || !memory().in_an_arena(address))
    return text(address, ", which is not memory of a device");
  auto at = static_cast<const std::byte*>(address);
  auto above = memory().allocations.upper_bound(at);
  std::ptrdiff_t missing = above == memory().allocations.end() ? PTRDIFF_MAX : above->first - at;
  if (const Allocation* below = memory().below(address)) {
    std::ptrdiff_t offset = at - below->start, past = offset - std::ptrdiff_t(below->bytes);
    if (past < 0)
      return text(address, ", ", offset, " bytes into ", show(*below),
                  below->freed ? ", which has been freed" : "");
    if (past <= missing) return text(address, ", ", past, " bytes past the end of ", show(*below));
  }
  return text(address, ", ", missing, " bytes before ", show(above->second));
}

}  // namespace plangrad::cuda::emulator
