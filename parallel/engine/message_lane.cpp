// The thread advances the first task of every queue, and sleeps in the transport when none moves.
// Chapter 04.
#include "parallel/engine/message_lane.h"

#include <algorithm>

#include "autograd/cpu/cpu_backend.h"

namespace plangrad::parallel {

MessageLane::MessageLane(Transport& transport)
    : transport_(transport), thread_([this] { loop(); }) {}

MessageLane::~MessageLane() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  transport_.wake();
  thread_.join();
}

TicketPtr MessageLane::post(Queue queue, Task task) {
  auto ticket = std::make_shared<Ticket>();
  ticket->issued = Clock::now();
  {
    std::lock_guard lock(mutex_);
    posted_.push_back({queue, {ticket, std::move(task)}});
  }
  transport_.wake();
  return ticket;
}

bool MessageLane::wait_for_any(const std::vector<const Ticket*>& tickets, double seconds) {
  std::unique_lock lock(mutex_);
  std::chrono::duration<double> limit(std::min(seconds, longest_sleep));
  auto one_is_done = [&tickets] {
    return std::any_of(tickets.begin(), tickets.end(), [](const Ticket* x) { return x->done; });
  };
  changed_.wait_for(lock, limit, [&] { return one_is_done() || failure_ || error_; });
  if (!one_is_done() && error_) std::rethrow_exception(error_);
  return one_is_done();
}

bool MessageLane::is_done(const Ticket& ticket) const {
  std::lock_guard lock(mutex_);
  return ticket.done;
}

std::optional<Failure> MessageLane::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void MessageLane::loop() try {
  autograd::set_compute_threads(1);
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
      for (auto& [queue, item] : posted_) queues_[queue].push_back(std::move(item));
      posted_.clear();
    }
    if (advance()) continue;
    if (auto failure = transport_.failure()) {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = failure;
      changed_.notify_all();
    }
    transport_.wait(0.1);
  }
} catch (...) {
  std::lock_guard lock(mutex_);
  error_ = std::current_exception();
  changed_.notify_all();
}

// [snippet advance]
/// Advances the first task of each queue. Returns whether any task has completed.
bool MessageLane::advance() {
  bool moved = false;
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    auto& items = queue->second;
    while (!items.empty() && items.front().task(transport_)) {
      items.front().task = nullptr;  // frees its memory before a waiting thread continues
      {
        std::lock_guard lock(mutex_);
        items.front().ticket->done = true;
        items.front().ticket->finished = Clock::now();
      }
      changed_.notify_all();
      items.pop_front();
      moved = true;
    }
    queue = items.empty() ? queues_.erase(queue) : std::next(queue);
  }
  return moved;
}
// [end snippet]

}  // namespace plangrad::parallel
