// Accesses, word by word.
// Not here: the words of reports (race_report.cpp).
// Chapter 12. FastTrack (Flanagan and Freund 2009).
#include "cuda/emulator/checked/watch.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/kernel_language.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime.h"
#include "cuda/emulator/scheduler.h"

extern "C" const char __data_start;  // what can be written of the program, by the linker

namespace paragrad::cuda::emulator {

using autograd::text;

namespace {

thread_local bool acts = false;  // this processor thread runs an operation
thread_local SharedShadow shared;

/// Constants stand in the part of the program that nobody can write.
bool is_constant(std::uintptr_t address) {
  return address >= reinterpret_cast<std::uintptr_t>(&__executable_start) &&
         address < reinterpret_cast<std::uintptr_t>(&__data_start);
}

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

// ---- who acts --------------------------------------------------------------------------------

Watch& Watch::instance() {
  static Watch& watch = *new Watch;  // programs free memory until their end
  return watch;
}

void Watch::begin(const Running& operation) {
  turn_.lock();
  acts = true;
  failed_ = false;
  actors_.begin(operation);
}

/// The host acts while it has the lock, unless an operation that called it does.
std::unique_lock<std::mutex> Watch::begin_host() {
  if (acts) return {};
  std::unique_lock lock(turn_);
  actors_.begin_host(history_of_host());
  failed_ = false;
  return lock;
}

void Watch::end() {
  acts = false;
  turn_.unlock();
}

void Watch::begin_grid(const Launch& launch) {
  actors_.begin_grid(launch);
  shared.begin_grid(dynamic_shared_memory, launch.shared_bytes);
}

void Watch::begin_block(std::uint64_t number) { shared.begin_block(actors_.begin_block(number)); }

// ---- accesses --------------------------------------------------------------------------------

void Watch::use(const void* address, std::size_t bytes, Use use, const void* code, bool all) {
  if (Unwatched::depth > 0) return;
  if (acts && !all && !Block::current()) return;  // the operation itself, which notes what it does
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (Block* block = Block::current())
    use_in_kernel(*block, at, bytes, use, code, all);
  else if (global_.contains(at))
    use_by_host(at, bytes, use, code);
}

void Watch::use_in_kernel(Block& block, std::uintptr_t address, std::size_t bytes, Use use,
                          const void* code, bool all) {
  const auto pointer = reinterpret_cast<const void*>(address);
  if (global_.contains(address) || shared.at(address)) {
    if (watch(address, bytes, use, code)) return;
  } else if (!all || block.owns(pointer) || (!use.writes && is_constant(address))) {
    return;
  } else {
    fail(text(use.writes ? "writes " : "reads ", describe_address(pointer),
              line_of(actors_.stamp(use, code).code),
              "; kernels have device memory, shared memory and their own variables"));
  }
  block.abandon();
}

void Watch::use_by_host(std::uintptr_t address, std::size_t bytes, Use use, const void* code) {
  const std::unique_lock lock = begin_host();
  if (is_allocated(address, bytes) && last_allocation_.device != pinned_host)
    fail(text(use.writes ? "writes " : "reads ",
              describe_address(reinterpret_cast<const void*>(address)),
              line_of(actors_.stamp(use, code).code), "; use cudaMemcpy"));
  else
    watch(address, bytes, use, code);
}

void Watch::note(const void* start, std::size_t bytes, Use use, const void* code) {
  const auto at = reinterpret_cast<std::uintptr_t>(start);
  if (bytes == 0 || !(global_.contains(at) || shared.at(at))) return;
  if (!watch(at, bytes, use, code) && Block::current()) Block::current()->abandon();
}

/// What was never written may be copied, and then is still never written.
void Watch::note_copy(void* to, const void* from, std::size_t bytes) {
  note(from, bytes, moving, nullptr);
  note(to, bytes, writing, nullptr);
  const auto target = reinterpret_cast<std::uintptr_t>(to);
  const auto source = reinterpret_cast<std::uintptr_t>(from);
  if (!global_.contains(source) || !global_.contains(target)) return;
  for (std::size_t i = 0; i < bytes; ++i)
    if (!(global_.at(source + i)->written >> (source + i) % word_bytes & 1))
      global_.at(target + i)->written &= ~(1u << (target + i) % word_bytes);
}

void Watch::release(const void* start, std::size_t bytes) {
  const std::unique_lock lock = begin_host();
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  const Access now = actors_.stamp(writing, nullptr);
  for (auto at = first; at < first + bytes; at += word_bytes) {
    const Cell& cell = *global_.at(at);
    for (const Access& other : {cell.write, cell.reads[0], cell.reads[1]}) {
      if (actors_.before(other, now)) continue;
      fail(explain({"race", other}, at, writing, now));
      at = first + bytes;
      break;
    }
  }
  static const std::uintptr_t page = sysconf(_SC_PAGESIZE);
  const std::uintptr_t end = (first + bytes + page - 1) / page * page;
  global_.forget(first / page * page, end - first / page * page);
  last_allocation_ = {};
}

/// Who acts is named, where report does not.
void Watch::fail(const std::string& what) {
  failed_ = true;
  const Access now = actors_.stamp(reading, nullptr);
  report(Block::current() ? what : text(actors_.describe(now), ": ", what));
  if (acts) fail_device(actors_.current().device, cudaErrorLaunchFailure);
}

std::string Watch::describe(std::uintptr_t address) const {
  return global_.contains(address) ? describe_address(reinterpret_cast<const void*>(address))
                                   : shared.describe(address);
}

// ---- the shadow ------------------------------------------------------------------------------

/// Of shared memory, what another block has left there is forgotten.
Cell* Watch::find_cell(std::uintptr_t address, std::uint32_t who) {
  if (global_.contains(address)) return global_.at(address);
  Cell* cell = shared.at(address);
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
      fail(explain(*fault, at, use, now));
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

  // What came before a later read says nothing more: who conflicts with it conflicts with both.
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

}  // namespace paragrad::cuda::emulator
