// What a warp's request takes, and what requests and operations add to the counters.
// Not here: whose requests they are (counter.cpp).
// CUDA C++ Programming Guide, compute capability 5.x: shared memory, which later ones share.
#include "cuda/emulator/counted/counter.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "cuda/emulator/device_memory.h"

namespace plangrad::cuda::emulator {

namespace {

/// Calls visit(lane) for each bit.
template <class Visit>
void visit_lanes(std::uint32_t lanes, Visit visit) {
  for (; lanes; lanes &= lanes - 1) visit(std::countr_zero(lanes));
}

/// Passes for lanes that together ask for at most 128 bytes: the most words of one bank.
int passes_of_part(const Request& request, std::uint32_t lanes, std::size_t bytes) {
  std::array<std::uintptr_t, 64> words;
  int count = 0;
  visit_lanes(lanes, [&](int lane) {
    const std::uintptr_t at = request.at[lane];
    for (std::uintptr_t word = at / 4; word <= (at + bytes - 1) / 4; ++word) words[count++] = word;
  });
  std::sort(words.begin(), words.begin() + count);
  const auto end = std::unique(words.begin(), words.begin() + count);
  std::array<int, 32> of_bank{};
  for (auto word = words.begin(); word != end; ++word) ++of_bank[*word % 32];
  return *std::max_element(of_bank.begin(), of_bank.end());
}

}  // namespace

int Sectors::lines() const {
  int result = 0;
  for (int i = 0; i < count; ++i) result += i == 0 || numbers[i] / 4 != numbers[i - 1] / 4;
  return result;
}

Sectors sectors_of(const Request& request, std::size_t bytes) {
  Sectors result;
  auto add = [&](std::uintptr_t sector) {
    if (result.count == 0 || result.numbers[result.count - 1] != sector)
      result.numbers[result.count++] = sector;
  };
  visit_lanes(request.lanes, [&](int lane) {
    add(request.at[lane] / Sectors::bytes);
    add((request.at[lane] + bytes - 1) / Sectors::bytes);
  });
  const auto first = result.numbers.begin();
  std::sort(first, first + result.count);
  result.count = static_cast<int>(std::unique(first, first + result.count) - first);
  return result;
}

Passes passes_of(const Request& request, std::size_t bytes) {
  const int parts = bytes <= 4 ? 1 : bytes <= 8 ? 2 : 4;
  const std::uint32_t first = ~0u >> (32 - 32 / parts);
  Passes result;
  for (int part = 0; part < parts; ++part) {
    const std::uint32_t lanes = request.lanes & first << 32 / parts * part;
    if (!lanes) continue;
    const int passes = passes_of_part(request, lanes, bytes);
    result.count += passes;
    result.conflicts += passes - 1;
  }
  return result;
}

/// Instructions follow each other as they did the last time.
WarpRequests::Instruction& WarpRequests::find(AccessKind access, std::size_t bytes,
                                              const void* code) {
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    if (next_ >= instructions_.size()) next_ = 0;
    Instruction& each = instructions_[next_++];
    if (each.code == code && each.access == access && each.bytes == bytes) return each;
  }
  next_ = 0;
  return instructions_.emplace_back(Instruction{code, access, bytes});
}

void WarpRequests::add(int lane, AccessKind access, std::uintptr_t address, std::size_t bytes,
                       const void* code) {
  Instruction& instruction = find(access, bytes, code);
  const std::uint32_t time = instruction.times[lane]++;
  if (time == instruction.requests.size()) instruction.requests.emplace_back();
  Request& request = instruction.requests[time];
  request.lanes |= 1u << lane;
  request.at[lane] = address;
}

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
