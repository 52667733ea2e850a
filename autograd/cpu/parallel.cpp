// ThreadPool: the caller opens a loop, helps itself to pieces, closes the loop, and waits for those
// helpers that have joined; one that wakes up too late finds it closed. Chapter 03.
#include "autograd/cpu/parallel.h"

#if PLANGRAD_OPENMP
#include <omp.h>
#endif

namespace plangrad::autograd::cpu {

/// Waits until `value` is no longer `old`: longer than most pauses between two kernels, shorter
/// than a time slice.
static void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  using clock = std::chrono::steady_clock;
  const auto asleep = clock::now() + std::chrono::microseconds(50);
  while (value.load(std::memory_order_acquire) == old)
    if (clock::now() > asleep) return value.wait(old, std::memory_order_acquire);
}

ThreadPool& ThreadPool::mine() {
  static thread_local ThreadPool pool;
  return pool;
}

ThreadPool::~ThreadPool() {
  ends_ = true;
  ++loops_;
  loops_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::run_loop() {
  while (static_cast<int>(helpers_.size()) + 1 < loop_.threads) {
    const int place = static_cast<int>(helpers_.size()) + 1;
    helpers_.emplace_back([this, place] { help(place); });
  }
  next_.store(0, std::memory_order_relaxed);
  state_.store(open, std::memory_order_release);
  ++loops_;
  loops_.notify_all();
  take_pieces();
  for (std::uint32_t left = state_.fetch_and(~open) & ~open; left > 0; left = state_.load())
    wait_while(state_, left);
}

void ThreadPool::help(int place) {
  own_place = place;
#if PLANGRAD_OPENMP
  omp_set_num_threads(1);  // a library that a piece calls starts no threads of its own
#endif
  for (std::uint32_t seen = 0; !ends_; seen = loops_.load()) {
    if (join()) {
      if (place < loop_.threads) take_pieces();
      leave();
    }
    wait_while(loops_, seen);
  }
}

/// Joins the loop, if it is open.
bool ThreadPool::join() {
  std::uint32_t state = state_.load();
  while (state & open)
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
  return false;
}

void ThreadPool::leave() {
  if (state_.fetch_sub(1, std::memory_order_release) == 1) state_.notify_all();
}

void ThreadPool::take_pieces() {
  inside = true;
  std::int64_t piece;
  while ((piece = next_.fetch_add(1, std::memory_order_relaxed)) < loop_.pieces)
    loop_.call(loop_.body, piece);
  inside = false;
}

}  // namespace plangrad::autograd::cpu
