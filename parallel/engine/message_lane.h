// MessageLane: the second lane of a rank: a thread that moves messages while the first computes.
// Tasks wait in queues, one per peer and direction or per group; only a queue's first one runs.
// Not here: what a task does (mailbox.cpp) and how bytes travel (transport). Chapter 04.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "parallel/transports/transport.h"

namespace plangrad::parallel {

using Clock = std::chrono::steady_clock;

/// The state of a message in the lane.
struct Ticket {
  bool done = false;  ///< read by the lane's thread and under its lock; others wait or ask is_done
  Clock::time_point issued, finished;
};
using TicketPtr = std::shared_ptr<Ticket>;

/// A queue of the lane: messages to a rank, messages from a rank, messages of a group, work on this
/// rank's own sum of a stage, or what rank 0 hears and says in an endless plan (progress.h).
struct Queue {
  enum class Kind { to_peer, from_peer, group, own_sum, report, grant };
  Kind kind = Kind::to_peer;
  int number = 0;  ///< the number of the rank, group or stage
  friend auto operator<=>(const Queue&, const Queue&) = default;
};

class MessageLane {
 public:
  /// The lane alone uses the transport until it is destroyed. Its own computations take one core.
  explicit MessageLane(Transport& transport);
  /// Ends the thread. Tasks that are not done are abandoned.
  ~MessageLane();

  /// Advances a message without ever blocking; true once the message is done.
  using Task = std::function<bool(Transport&)>;
  TicketPtr post(Queue queue, Task task);

  /// Sleeps until one of the messages is done, `seconds` have passed, or another rank has failed.
  /// Returns whether one is done.
  /// throws: what a task threw
  bool wait_for_any(const std::vector<const Ticket*>& tickets, double seconds);
  bool is_done(const Ticket& ticket) const;
  std::optional<Failure> failure() const;

 private:
  struct Item {
    TicketPtr ticket;
    Task task;
  };

  void loop();
  bool advance();

  Transport& transport_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Queue, Item>> posted_;  // not yet seen by the thread
  std::map<Queue, std::deque<Item>> queues_;   // the thread's own
  std::optional<Failure> failure_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace plangrad::parallel
