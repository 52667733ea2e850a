// Accesses, word by word: each is compared with those that the shadow knows, and remembered there.
// Not here: whose accesses are watched (watch.cpp), and words of devices (observed/addresses.h).
// FastTrack (Flanagan and Freund 2009).
#include <algorithm>

#include "autograd/error.h"
#include "cuda/emulator/block.h"
#include "cuda/emulator/checked/watch.h"

namespace plangrad::cuda::emulator {

SharedShadow::SharedShadow() : static_cells_(static_.bytes / word_bytes + 2) {}

void SharedShadow::begin_grid(const void* dynamic, std::size_t bytes) {
  dynamic_ = {reinterpret_cast<std::uintptr_t>(dynamic), bytes};
  if (dynamic_cells_.size() * word_bytes < bytes) dynamic_cells_.resize(bytes / word_bytes + 1);
}

void SharedShadow::begin_block(std::uint32_t who) {
  visit_language_variables([&](Range variable) {
    for (auto a = variable.start; a < variable.start + variable.bytes; a += word_bytes)
      *at(a) = {.owner = who, .written = 15};
  });
}

Cell* SharedShadow::at(std::uintptr_t address) {
  if (static_.contains(address)) return &static_cells_[(address - static_.start) / word_bytes];
  if (dynamic_.contains(address)) return &dynamic_cells_[(address - dynamic_.start) / word_bytes];
  return nullptr;
}

std::string SharedShadow::describe(std::uintptr_t address) const {
  if (dynamic_.contains(address))
    return autograd::text("byte ", address - dynamic_.start, " of dynamic shared memory");
  return "static shared memory";
}

namespace {

bool same_moment(const Access& a, const Access& b) {
  return a.who == b.who && a.thread == b.thread && a.barriers == b.barriers &&
         a.warp_syncs == b.warp_syncs && a.atomic == b.atomic && a.pending == b.pending;
}

/// With the bytes that the same thread has used just before.
void remember(Access& last, Access now) {
  if (same_moment(last, now)) now.bytes |= last.bytes;
  last = now;
}

}  // namespace

/// Finds an address's cell; forgets what another block has left in a cell of shared memory.
Cell* Watch::find_cell(std::uintptr_t address, std::uint32_t who) {
  if (global_.contains(address)) return global_.at(address);
  Cell* cell = shared().at(address);
  if (cell && cell->owner != who) *cell = {.owner = who};
  return cell;
}

bool Watch::is_allocated(std::uintptr_t address, std::size_t bytes) {
  const auto start = reinterpret_cast<const std::byte*>(address);
  Allocation& last = last_allocation_;
  if (start < last.start || start + bytes > last.start + last.bytes)
    last = find_allocation(start).value_or(Allocation{});
  return start >= last.start && start + bytes <= last.start + last.bytes;
}

bool Watch::watch(std::uintptr_t address, std::size_t bytes, Use use, const void* code) {
  if (failed_) return true;
  Access now = actors_.stamp(use, code);
  for (std::uintptr_t at = address, end = address + bytes; at < end;) {
    const std::uintptr_t next = std::min(end, (at / word_bytes + 1) * word_bytes);
    now.bytes = ((1u << (next - at)) - 1) << at % word_bytes;
    Cell* cell = find_cell(at, now.who);
    const bool fresh = !cell || (now.bytes & ~cell->written);  // then it may be outside
    std::optional<Fault> fault;
    if (!cell || (fresh && global_.contains(at) && !is_allocated(at, next - at)))
      fault = Fault{"invalid"};
    else
      fault = check(*cell, use, now);
    if (fault) {
      fail(*fault, at, use, now);
      return false;
    }
    at = next;
  }
  return true;
}

std::optional<Watch::Fault> Watch::check(Cell& cell, Use use, const Access& now) {
  auto conflicts = [&](const Access& other) {
    return (other.bytes & now.bytes) && !(other.atomic && now.atomic) &&
           !actors_.before(other, now);
  };
  if (cell.write.pending && !use.arrives && (cell.write.bytes & now.bytes))
    return Fault{"pending", cell.write};
  if (conflicts(cell.write)) return Fault{"race", cell.write};
  if (use.writes)
    for (const Access& read : cell.reads)
      if (conflicts(read)) return Fault{"race", read};
  if (use.reads && !use.moves && (now.bytes & ~cell.written)) return Fault{"unwritten"};

  // An access before a later read adds nothing: whatever conflicts with it conflicts with both.
  if (use.reads && !use.writes) {
    auto& [first, second] = cell.reads;
    remember(actors_.before(first, now) ? first : second, now);
  }
  if (use.writes) {
    remember(cell.write, now);
    cell.written |= now.bytes;
    for (Access& read : cell.reads)
      if ((read.bytes & ~now.bytes) == 0) read = {};
  }
  return {};
}

}  // namespace plangrad::cuda::emulator
