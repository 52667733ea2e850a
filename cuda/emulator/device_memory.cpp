// The list of all allocations.
// Not here: their pages (arena.cpp).
// CUDA Runtime API, memory management.
#include "cuda/emulator/device_memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include "autograd/error.h"
#include "cuda/emulator/arena.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/sanitizer.h"

namespace plangrad::cuda::emulator {

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

std::size_t bytes_in_use(int device) {
  std::lock_guard lock(memory().mutex);
  return memory().devices[device].in_use;
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
