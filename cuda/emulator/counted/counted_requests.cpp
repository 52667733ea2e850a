// What requests, and operations that are not kernels, add to the counters.
// Not here: how requests are found (counter.cpp), and what one takes (requests.cpp).
// Chapter 12.
#include <bit>
#include <optional>

#include "cuda/emulator/counted/counter.h"
#include "cuda/emulator/device_memory.h"

namespace plangrad::cuda::emulator {

void Counter::take(int warp) {
  warps_[warp].take([this](AccessKind access, std::size_t bytes, const Request& request) {
    count(access, bytes, request);
  });
}

void Counter::take_all() {
  for (std::size_t warp = 0; warp < warps_.size(); ++warp) take(static_cast<int>(warp));
}

void Counter::count(AccessKind access, std::size_t bytes, const Request& request) {
  counts_->partial += request.lanes != ~0u;
  if (access == AccessKind::shared_load) return count_shared(counts_->shared_loads, bytes, request);
  if (access == AccessKind::shared_store)
    return count_shared(counts_->shared_stores, bytes, request);
  count_device(access, bytes, request);
}

void Counter::count_device(AccessKind access, std::size_t bytes, const Request& request) {
  GlobalCount& counts = access == AccessKind::load    ? counts_->loads
                        : access == AccessKind::store ? counts_->stores
                                                      : counts_->atomics;
  const Sectors sectors = sectors_of(request, bytes);
  ++counts.requests;
  counts.lanes += std::popcount(request.lanes);
  counts.bytes += bytes * std::popcount(request.lanes);
  counts.sectors += sectors.count;
  counts.lines += sectors.lines();
  for (int i = 0; i < sectors.count; ++i) touch(access, sectors.numbers[i]);
}

void Counter::count_shared(SharedCount& counts, std::size_t bytes, const Request& request) {
  const Passes passes = passes_of(request, bytes);
  ++counts.requests;
  counts.lanes += std::popcount(request.lanes);
  counts.bytes += bytes * std::popcount(request.lanes);
  counts.passes += passes.count;
  counts.conflicts += passes.conflicts;
}

void Counter::touch(AccessKind access, std::uintptr_t sector) {
  Sector& known = *device_.at(sector * Sectors::bytes);
  auto count = [this](std::uint32_t& last, GlobalCount& counts) {
    counts.distinct += last != operation_;
    last = operation_;
  };
  if (access == AccessKind::load) return count(known.loaded, counts_->loads);
  if (access == AccessKind::store) return count(known.stored, counts_->stores);
  count(known.updated, counts_->atomics);
}

void Counter::count_range(const void* start, std::size_t bytes, AccessKind access) {
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  if (bytes == 0 || !device_.contains(first)) return;
  const std::optional<Allocation> found = find_allocation(start);
  if (!found || found->device == pinned_host) return;
  (access == AccessKind::load ? counts_->loads : counts_->stores).bytes += bytes;
  for (auto at = first / Sectors::bytes; at <= (first + bytes - 1) / Sectors::bytes; ++at)
    touch(access, at);
}

}  // namespace plangrad::cuda::emulator
