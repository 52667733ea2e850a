// Which thread of a block runs next, and on which stack.
// Not here: what threads wait for (block_meetings.cpp), and the switch between stacks (fiber.cpp).
// CUDA C++ Programming Guide, thread hierarchy.
#include "cuda/emulator/block.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <mutex>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/emulator.h"

namespace plangrad::cuda::emulator {

using autograd::text;

namespace {

thread_local Block* current_block = nullptr;

/// The stacks that no launch uses; launches of all processor threads borrow them.
struct Spare {
  std::mutex mutex;
  std::vector<std::unique_ptr<Fiber>> fibers;
  int made = 0;
};
Spare& spare() {
  static Spare instance;
  return instance;
}

uint3 position(int thread, dim3 size) {
  unsigned t = thread;
  if (size.y == 1 && size.z == 1) return {t, 0, 0};
  return {t % size.x, t / size.x % size.y, t / (size.x * size.y)};
}

std::uint64_t next_random(std::uint64_t& state) {  // Marsaglia 2003, xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

/// The number of the bit of `mask` that comes first in this order.
int first_bit(std::uint32_t mask, Order order, std::uint64_t& random) {
  if (order == Order::forward) return std::countr_zero(mask);
  if (order == Order::reverse) return 31 - std::countl_zero(mask);
  for (int skip = next_random(random) % std::popcount(mask); skip > 0; --skip) mask &= mask - 1;
  return std::countr_zero(mask);
}

std::uint32_t lowest_bits(int count) { return count >= 32 ? ~0u : (1u << count) - 1; }

}  // namespace

Block* Block::current() { return current_block; }

Block::Block(const Launch& launch)
    : launch_(launch),
      threads_(launch.block.x * launch.block.y * launch.block.z),
      warps_((threads_ + warp_size - 1) / warp_size),
      order_(settings().order),
      random_(settings().seed * 0x9E3779B97F4A7C15u + 1),
      suspended_(threads_),
      meetings_(warps_),
      syncs_(warps_) {
  // At most the number it can need, or launches at the same time would make theirs again and again.
  std::lock_guard lock(spare().mutex);
  std::vector<std::unique_ptr<Fiber>>& all = spare().fibers;
  const auto first = all.end() - std::min<std::ptrdiff_t>(threads_, std::ssize(all));
  fibers_.assign(std::make_move_iterator(first), std::make_move_iterator(all.end()));
  all.erase(first, all.end());
}

/// Stacks of a block that failed are not used again: they hold frames that never end.
Block::~Block() {
  if (failed_) return;
  std::lock_guard lock(spare().mutex);
  for (auto& fiber : fibers_) spare().fibers.push_back(std::move(fiber));
}

bool Block::run(uint3 index) {
  blockIdx = index;
  blockDim = launch_.block;
  gridDim = launch_.grid;
  current_block = this;
  ended_ = 0;
  copies_.clear();
  std::fill(syncs_.begin(), syncs_.end(), 0);
  make_all_runnable();
  go_to(pick());
  current_block = nullptr;
  return !failed_;
}

// ---- choosing --------------------------------------------------------------------------------

void Block::make_runnable(int warp, std::uint32_t lanes) {
  runnable_[warp] |= lanes;
  warps_runnable_ |= 1u << warp;
}

void Block::make_all_runnable() {
  for (int w = 0; w < warps_; ++w) make_runnable(w, lowest_bits(threads_ - w * warp_size));
  warp_ = order_ == Order::reverse ? warps_ - 1 : 0;
}

/// The runnable warp that follows warp_ in the order.
int Block::next_warp() const {
  std::uint32_t mask = warps_runnable_, later = mask & ~lowest_bits(warp_ + 1);
  std::uint32_t earlier = mask & lowest_bits(warp_);
  if (order_ == Order::reverse) return 31 - std::countl_zero(earlier ? earlier : mask);
  return std::countr_zero(later ? later : mask);
}

/// Takes a thread that can continue, of the last one's warp while it has any; -1 if there is none.
int Block::pick() {
  if (!warps_runnable_) return -1;
  if (order_ == Order::random)
    warp_ = first_bit(warps_runnable_, order_, random_);
  else if (!runnable_[warp_])
    warp_ = next_warp();
  int lane = first_bit(runnable_[warp_], order_, random_);
  runnable_[warp_] &= ~(1u << lane);
  if (!runnable_[warp_]) warps_runnable_ &= ~(1u << warp_);
  return warp_ * warp_size + lane;
}

// ---- switching -------------------------------------------------------------------------------

void Block::set_thread(int thread) {
  thread_ = thread;
  threadIdx = position(thread, launch_.block);
}

Context* Block::take_carrier() {
  if (!idle_.empty()) {
    Context* carrier = idle_.back();
    idle_.pop_back();
    return carrier;
  }
  if (started_ == fibers_.size()) {
    std::lock_guard lock(spare().mutex);
    fibers_.push_back(std::make_unique<Fiber>(spare().made++));
  }
  Fiber* fiber = fibers_[started_++].get();
  fiber->start([] { current()->carry(); });
  return fiber;
}

/// Leaves this stack for the one on which `thread` waits, or for a carrier that begins it.
void Block::go_to(int thread) {
  set_thread(thread);
  Context* from = running_;
  Context* waiting = std::exchange(suspended_[thread], nullptr);
  running_ = waiting ? waiting : take_carrier();
  switch_context(*from, *running_);
}

/// Lets others run until something has made this thread runnable and it is picked.
void Block::wait() {
  int next = pick();
  if (next == thread_) return;
  if (next < 0) {
    report([&] { return text("its threads wait for each other forever: ", who_waits()); });
    abandon();
  }
  suspended_[thread_] = running_;
  go_to(next);
}

// [snippet carrier]
/// A carrier's life: begins one thread after the other.
void Block::carry() {
  for (;;) {
    launch_.kernel();
    ++ended_;
    int next = pick();
    if (next < 0 && ended_ < threads_) {
      report(
          [&] { return text("its threads wait forever for some that have ended: ", who_waits()); });
      abandon();
    }
    if (next >= 0 && !suspended_[next]) {
      set_thread(next);
      continue;
    }
    idle_.push_back(running_);
    if (next >= 0)
      go_to(next);
    else
      switch_context(*std::exchange(running_, &home_), home_);  // the block has ended
  }
}
// [end snippet]

void Block::abandon() {
  failed_ = true;
  switch_context(*std::exchange(running_, &home_), home_);
  __builtin_unreachable();
}

}  // namespace plangrad::cuda::emulator
