// One Line for each sender, receiver and channel: the ends of messages that wait for their match.
// A line's mutex is held while bytes are copied, so a request cannot vanish in the middle of that.
// Chapter 04.
#include "parallel/transports/threads_transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

namespace plangrad::parallel {
namespace {

class Line;

/// One rank's end of a message: its sending or its receiving.
class End : public Request {
 public:
  End(Line& line, const Message& begun) : message(begun), line_(line) {}
  ~End() override;

  bool done() override {
    if (!done_.load(std::memory_order_acquire)) return false;
    PG_CHECK(error_.empty(), error_);
    return true;
  }
  /// Completes the request, if it is not done yet. The other end may call it, too.
  void finish(const std::string& error = "") {
    if (!done_) error_ = error;
    done_.store(true, std::memory_order_release);
  }

  const Message message;

 private:
  Line& line_;
  std::string error_;  // written before `done_`
  std::atomic<bool> done_ = false;
};

/// A message that was sent and not received yet.
struct Sent {
  End* sender = nullptr;  // null: its request is gone
  std::int64_t bytes = 0;
  bool buffered = false;
  std::vector<std::byte> buffer;
};

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// Messages match first in, first out: at least one of the two queues is empty.
class Line {
 public:
  Line(int from, int to, int capacity)
      : from_(from), to_(to), capacity_(static_cast<std::size_t>(capacity)) {}

  // [snippet line]
  void send(End& sender) {
    std::lock_guard lock(mutex_);
    if (receives_.empty()) {
      sends_.push_back({&sender, sender.message.bytes, false, {}});
      return fill_buffers();
    }
    End& receiver = *receives_.front();
    receives_.pop_front();
    pass({&sender, sender.message.bytes, false, {}}, receiver);
  }

  void receive(End& receiver) {
    std::lock_guard lock(mutex_);
    if (sends_.empty()) return receives_.push_back(&receiver);
    Sent sent = std::move(sends_.front());
    sends_.pop_front();
    pass(sent, receiver);
    fill_buffers();
  }
  // [end snippet]

  /// Forgets `end`; a message whose bytes are in a buffer stays.
  void withdraw(End& end) {
    std::lock_guard lock(mutex_);
    std::erase(receives_, &end);
    for (Sent& sent : sends_)
      if (sent.sender == &end) sent.sender = nullptr;
    std::erase_if(sends_, [](const Sent& sent) { return !sent.sender && !sent.buffered; });
    fill_buffers();
  }

 private:
  // [snippet fill_buffers]
  /// Copies the first `capacity` waiting messages, so that their senders need not wait any more.
  void fill_buffers() {
    for (std::size_t i = 0; i < std::min(capacity_, sends_.size()); ++i) {
      Sent& sent = sends_[i];
      if (sent.buffered) continue;
      sent.buffer.resize(static_cast<std::size_t>(sent.bytes));
      copy_bytes(sent.buffer.data(), sent.sender->message.data, sent.bytes);
      sent.buffered = true;
      sent.sender->finish();
    }
  }
  // [end snippet]

  void pass(const Sent& sent, End& receiver) {
    std::string error;
    if (sent.bytes == receiver.message.bytes) {
      const void* from = sent.buffered ? sent.buffer.data() : sent.sender->message.data;
      copy_bytes(receiver.message.data, from, sent.bytes);
    } else {
      error = autograd::text("rank ", from_, " sent ", sent.bytes, " bytes on channel ",
                             receiver.message.channel, ", but rank ", to_, " expects ",
                             receiver.message.bytes, "; both must run the same plan");
    }
    for (End* end : {sent.sender, &receiver})
      if (end) end->finish(error);
  }

  std::mutex mutex_;
  int from_, to_;
  std::size_t capacity_;
  std::deque<Sent> sends_;
  std::deque<End*> receives_;
};

End::~End() { line_.withdraw(*this); }

/// Wakes a rank. A ring stays until it is heard, so none is lost between done() and wait().
class Bell {
 public:
  void ring() {
    {
      std::lock_guard lock(mutex_);
      rung_ = true;
    }
    heard_.notify_all();
  }
  void sleep(double seconds) {
    std::unique_lock lock(mutex_);
    std::chrono::duration<double> limit(std::min(seconds, longest_sleep));
    heard_.wait_for(lock, limit, [&] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  bool rung_ = false;
};

}  // namespace

/// State that the ranks share.
struct ThreadsWorld::State {
  State(int ranks, int buffers) : capacity(buffers), bells(ranks), positions(ranks) {}

  Line& line(int from, int to, int channel) {
    std::lock_guard lock(mutex);
    return lines.try_emplace({from, to, channel}, from, to, capacity).first->second;
  }

  const int capacity;
  std::mutex mutex;  // guards `lines` and `failures`
  std::map<std::tuple<int, int, int>, Line> lines;
  std::vector<Failure> failures;  // in the order of their reports
  std::vector<Bell> bells;
  std::vector<std::atomic<Position>> positions;
  std::vector<std::unique_ptr<Transport>> seats;

  class Seat;
};

class ThreadsWorld::State::Seat : public Transport {
 public:
  Seat(State& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_.bells.size()); }
  const char* name() const override { return "threads"; }

  std::unique_ptr<Request> send(const Message& message) override {
    return begin(&Line::send, rank_, message.peer, message);
  }
  std::unique_ptr<Request> receive(const Message& message) override {
    return begin(&Line::receive, message.peer, rank_, message);
  }

  void wait(double seconds) override { world_.bells[rank_].sleep(seconds); }
  void wake() override { world_.bells[rank_].ring(); }

  void publish(Position position) override { world_.positions[rank_] = position; }
  Position position(int rank) const override { return world_.positions.at(rank); }
  double silence(int) const override { return 0; }

  void fail(const std::string& what) override {
    {
      std::lock_guard lock(world_.mutex);
      world_.failures.push_back({rank_, what});
    }
    for (Bell& bell : world_.bells) bell.ring();
  }
  std::optional<Failure> failure() override {
    std::lock_guard lock(world_.mutex);
    for (const Failure& failure : world_.failures)
      if (failure.rank != rank_) return failure;
    return std::nullopt;
  }

 private:
  std::unique_ptr<Request> begin(void (Line::*at)(End&), int from, int to, const Message& message) {
    check_message(*this, message);
    Line& line = world_.line(from, to, message.channel);
    auto end = std::make_unique<End>(line, message);
    (line.*at)(*end);
    world_.bells[message.peer].ring();
    return end;
  }

  State& world_;
  int rank_;
};

ThreadsWorld::ThreadsWorld(int ranks, int capacity) {
  PG_CHECK(ranks > 0, "a world of ", ranks, " ranks; it needs at least one");
  PG_CHECK(capacity >= 0, "a capacity of ", capacity, " messages; 0 means none is buffered");
  state_ = std::make_unique<State>(ranks, capacity);
  for (int rank = 0; rank < ranks; ++rank)
    state_->seats.push_back(std::make_unique<State::Seat>(*state_, rank));
}

ThreadsWorld::~ThreadsWorld() = default;

int ThreadsWorld::size() const { return static_cast<int>(state_->seats.size()); }

Transport& ThreadsWorld::transport(int rank) {
  PG_CHECK(rank >= 0 && rank < size(), "rank ", rank, " of a world of ", size(), " ranks");
  return *state_->seats[rank];
}

}  // namespace plangrad::parallel
