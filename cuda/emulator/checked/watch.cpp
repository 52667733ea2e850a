// Tells which actor uses memory, and whose memory that is.
// Not here: the shadow's verdict (check.cpp), and the words of reports (actors.cpp).
// Chapter 12. FastTrack (Flanagan and Freund 2009).
#include "cuda/emulator/checked/watch.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/kernel_language.h"
#include "cuda/emulator/runtime.h"
#include "cuda/emulator/scheduler.h"

extern "C" const char __data_start;  // what can be written of the program, by the linker

namespace plangrad::cuda::emulator {

using autograd::text;

namespace {

thread_local bool acts = false;  // this processor thread runs an operation

/// Constants stand in the part of the program that nobody can write.
bool is_constant(std::uintptr_t address) {
  return address >= reinterpret_cast<std::uintptr_t>(&__executable_start) &&
         address < reinterpret_cast<std::uintptr_t>(&__data_start);
}

}  // namespace

SharedShadow& Watch::shared() {
  static thread_local SharedShadow shadow;
  return shadow;
}

// ---- who acts --------------------------------------------------------------------------------

Watch& Watch::instance() {
  static Watch& watch = *new Watch;  // programs free memory until their end
  return watch;
}

Observer& observer_of_build() { return Watch::instance(); }

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
  shared().begin_grid(dynamic_shared_memory, launch.shared_bytes);
}

void Watch::begin_block(std::uint64_t number) { shared().begin_block(actors_.begin_block(number)); }

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
  if (global_.contains(address) || shared().at(address)) {
    if (watch(address, bytes, use, code)) return;
  } else {
    const bool own = block.owns(reinterpret_cast<const void*>(address));
    if (!all || own || (!use.writes && is_constant(address))) return;
    fail(Fault{"kernels have device memory, shared memory and their own variables"}, address, use,
         actors_.stamp(use, code));
  }
  block.abandon();
}

void Watch::use_by_host(std::uintptr_t address, std::size_t bytes, Use use, const void* code) {
  const std::unique_lock lock = begin_host();
  if (is_allocated(address, bytes) && last_allocation_.device != pinned_host)
    fail(Fault{"the host must use cudaMemcpy"}, address, use, actors_.stamp(use, code));
  else
    watch(address, bytes, use, code);
}

void Watch::note(const void* start, std::size_t bytes, Use use, const void* code) {
  const auto at = reinterpret_cast<std::uintptr_t>(start);
  if (bytes == 0 || !(global_.contains(at) || shared().at(at))) return;
  if (!watch(at, bytes, use, code) && Block::current()) Block::current()->abandon();
}

/// Memory that was never written may be copied; the copy then counts as never written.
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
      fail({"race", other}, at, writing, now);
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
void Watch::fail(const Fault& fault, std::uintptr_t address, Use use, const Access& now) {
  Unwatched own_work;
  failed_ = true;
  const std::string what = explain(fault, address, use, now);
  report(Block::current() ? what : text(actors_.describe(now), ": ", what));
  if (acts) fail_device(actors_.current().device, cudaErrorLaunchFailure);
}

std::string Watch::describe(std::uintptr_t address) const {
  return shared().at(address) ? shared().describe(address)
                              : describe_address(reinterpret_cast<const void*>(address));
}

}  // namespace plangrad::cuda::emulator
