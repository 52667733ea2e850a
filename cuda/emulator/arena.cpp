// Each allocation ends, to 256 bytes, where an unmapped page begins.
// Not here: the meaning of an address (device_memory.cpp).
// Electric Fence (Perens 1987) is the model.
#include "cuda/emulator/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "autograd/error.h"
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

}  // namespace plangrad::cuda::emulator
