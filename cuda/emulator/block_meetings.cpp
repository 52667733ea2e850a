// Where threads of a block wait for each other: barriers, and the operations of a warp, which
// kernel_language.h hands to the block that runs.
// Not here: who runs meanwhile (block.cpp).
// CUDA C++ Programming Guide, synchronization and warp shuffle functions.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "autograd/error.h"
#include "cuda/emulator/block.h"
#include "cuda/emulator/device_emulated.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/kernel_language.h"
#include "cuda/emulator/observer.h"

namespace plangrad::cuda::emulator {

using autograd::text;

namespace {

std::string show(const Place& place) {
  return text(place.name, " (", place.where.file_name(), ":", place.where.line(), ")");
}

template <class Vector>
std::string show(const Vector& v) {
  return text('(', v.x, ',', v.y, ',', v.z, ')');
}

}  // namespace

void Block::barrier(Place place) {
  if (at_barrier_ == 0) barrier_place_ = place;
  if (!(barrier_place_ == place)) {
    report([&] {
      return text("is at ", show(place), " while others are at ", show(barrier_place_),
                  "; all threads of a block must meet at the same barrier");
    });
    abandon();
  }
  if (++at_barrier_ == threads_) {
    at_barrier_ = 0;
    ++barriers_;
    if (observer) observer->block_met();
    std::fill(syncs_.begin(), syncs_.end(), 0);
    make_all_runnable();
  }
  wait();
}

void Block::warp_operation(Place place, void* record, void (*carry_out)(void* const* records)) {
  int warp = thread_ / warp_size, lane = thread_ % warp_size;
  if (threads_ < (warp + 1) * warp_size) {
    report([&] {
      return text("calls ", show(place), " in a warp of ", threads_ - warp * warp_size,
                  " threads; use blocks of whole warps, multiples of 32");
    });
    abandon();
  }
  Meeting& meeting = meetings_[warp];
  if (meeting.arrived == 0) meeting.place = place;
  if (!(meeting.place == place)) {
    report([&] {
      return text("is at ", show(place), " while other lanes of its warp are at ",
                  show(meeting.place), "; all lanes must carry out the same operation");
    });
    abandon();
  }
  // [snippet last lane]
  meeting.records[lane] = record;
  meeting.arrived |= 1u << lane;
  if (meeting.arrived == ~0u) {
    Unwatched own_work;  // by observers
    if (observer) observer->warp_met(place.name, place.instructions);
    carry_out(meeting.records.data());
    meeting.arrived = 0;
    make_runnable(warp, ~0u);
  }
  wait();
  // [end snippet]
}

PendingCopies& Block::pending_copies() {
  copies_.resize(threads_);
  return copies_[thread_];
}

// ---- describing ------------------------------------------------------------------------------

std::string Block::describe() const {
  return text("kernel ", name_of_function(launch_.function), ", block ", show(blockIdx), " of ",
              show(launch_.grid), ", thread ", show(threadIdx), " of ", show(launch_.block));
}

std::string Block::who_waits() const {
  std::string result;
  if (at_barrier_ > 0) result = text(at_barrier_, " at ", show(barrier_place_), ", ");
  for (int w = 0; w < warps_; ++w)
    if (int lanes = std::popcount(meetings_[w].arrived))
      result += text(lanes, " of warp ", w, " at ", show(meetings_[w].place), ", ");
  return text(result, ended_, " ended, of ", threads_);
}

bool Block::owns(const void* address) const {
  auto at = static_cast<const std::byte*>(address);
  auto inside = [&](const void* start, std::size_t bytes) {
    return at >= start && at < static_cast<const std::byte*>(start) + bytes;
  };
  return inside(running_->bottom, running_->size) || inside(&launch_, sizeof launch_);
}

bool Block::overflowed_at(const void* address) const {
  for (const auto& fiber : fibers_)
    if (fiber->overflowed_at(address)) return true;
  return false;
}

namespace {

Block& block_for(const char* name) {
  Block* block = Block::current();
  if (!block) {
    report([&] { return autograd::text(name, " is called outside a kernel"); });
    std::abort();
  }
  return *block;
}

}  // namespace

void block_barrier(const char* name, std::source_location where) {
  block_for(name).barrier({name, where});
}

void check_alignment(const char* name, std::source_location where, const void* address,
                     std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) return;
  report([&] {
    return autograd::text("calls ", name, " (", where.file_name(), ':', where.line(), ") of ",
                          bytes, " bytes at ", address, ", which is no multiple of that");
  });
  block_for(name).abandon();
}

void warp_operation(const char* name, std::source_location where, unsigned mask, void* record,
                    void (*carry_out)(void* const* records), int instructions) {
  Block& block = block_for(name);
  if (mask != ~0u) {
    report([&] {
      return autograd::text("calls ", name, " (", where.file_name(), ':', where.line(),
                            ") with the mask ", std::hex, mask, "; only the full one is emulated");
    });
    block.abandon();
  }
  block.warp_operation({name, where, instructions}, record, carry_out);
}

void synchronize_warp(void* const*) { block_for("__syncwarp").count_sync(); }

unsigned ballot(const char* name, std::source_location where, unsigned mask, bool predicate) {
  unsigned result = predicate;
  warp_operation(name, where, mask, &result, [](void* const* records) {
    auto lane = [&](int i) -> unsigned& { return *static_cast<unsigned*>(records[i]); };
    unsigned bits = 0;
    for (int i = 0; i < warpSize; ++i) bits |= lane(i) << i;
    for (int i = 0; i < warpSize; ++i) lane(i) = bits;
  });
  return result;
}

}  // namespace plangrad::cuda::emulator
