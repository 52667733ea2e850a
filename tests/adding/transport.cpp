// A transport for ranks that are threads: a message is copied into a letter when it is sent, and
// lies in a box of one shared office until its receiver takes it.
// Not here: threads and reports of ranks that fail (parallel/transports/launch.h). Chapter 14.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include "parallel/transports/launch.h"
#include "tests/adding/added.h"

namespace plangrad::parallel {
namespace {

class Expected;

// [snippet office]
/// Letters from one rank to another on one channel, and the receives that wait for them, in order.
struct Box {
  std::deque<std::vector<std::byte>> letters;
  std::deque<Expected*> receives;
};

/// State that the ranks share. A thread holds the lock while it reads or writes.
struct Office {
  explicit Office(int ranks) : positions(ranks), woken(ranks) {}

  std::mutex mutex;
  std::condition_variable news;
  std::map<std::tuple<int, int, int>, Box> boxes;  // by sender, receiver and channel
  std::vector<Position> positions;                 // by rank
  std::vector<bool> woken;                         // by rank; stays until the rank has slept
  std::vector<Failure> failures;                   // in the order in which they came
};
// [end snippet]

// [snippet requests]
/// The bytes are in a letter already, so the sender has nothing to wait for.
class Sent : public Request {
 public:
  bool done() override { return true; }
};

class Expected : public Request {
 public:
  Expected(Office& office, Box& box, const Message& message, int rank)
      : office_(office), box_(box), message_(message), rank_(rank) {
    box_.receives.push_back(this);
  }
  /// A receive that is given up takes no letter that comes later.
  ~Expected() override {
    std::lock_guard lock(office_.mutex);
    std::erase(box_.receives, this);
  }
  bool done() override {
    std::lock_guard lock(office_.mutex);
    for (; !box_.letters.empty() && !box_.receives.empty(); box_.letters.pop_front()) {
      Expected& first = *box_.receives.front();
      box_.receives.pop_front();
      first.take(box_.letters.front());
    }
    PG_CHECK(error_.empty(), error_);
    return done_;
  }

 private:
  void take(const std::vector<std::byte>& letter) {
    done_ = true;
    if (static_cast<std::int64_t>(letter.size()) != message_.bytes)
      error_ = autograd::text("rank ", message_.peer, " sent ", letter.size(), " bytes on channel ",
                              message_.channel, ", but rank ", rank_, " expects ", message_.bytes);
    else if (!letter.empty())
      std::memcpy(message_.data, letter.data(), letter.size());
  }

  Office& office_;
  Box& box_;
  const Message message_;
  int rank_;
  bool done_ = false;
  std::string error_;
};
// [end snippet]

// [snippet seat]
class Seat : public Transport {
 public:
  Seat(std::shared_ptr<Office> office, int rank) : office_(std::move(office)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(office_->positions.size()); }
  const char* name() const override { return "post"; }

  std::unique_ptr<Request> send(const Message& message) override {
    check_message(*this, message);
    const auto* first = static_cast<const std::byte*>(message.data);
    std::lock_guard lock(office_->mutex);
    office_->boxes[{rank_, message.peer, message.channel}].letters.emplace_back(
        first, first + message.bytes);
    wake_rank(message.peer);
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Request> receive(const Message& message) override {
    check_message(*this, message);
    std::lock_guard lock(office_->mutex);
    Box& box = office_->boxes[{message.peer, rank_, message.channel}];
    return std::make_unique<Expected>(*office_, box, message, rank_);
  }

  void wait(double seconds) override {
    std::unique_lock lock(office_->mutex);
    const std::chrono::duration<double> limit(std::min(seconds, longest_sleep));
    office_->news.wait_for(lock, limit, [&] { return office_->woken[rank_]; });
    office_->woken[rank_] = false;
  }
  void wake() override {
    std::lock_guard lock(office_->mutex);
    wake_rank(rank_);
  }
  // [end snippet]

  // [snippet news]
  void publish(Position position) override {
    std::lock_guard lock(office_->mutex);
    office_->positions[rank_] = position;
  }
  Position position(int rank) const override {
    std::lock_guard lock(office_->mutex);
    return office_->positions.at(rank);
  }
  double silence(int) const override { return 0; }  // all see what is published at once

  void fail(const std::string& what) override {
    std::lock_guard lock(office_->mutex);
    office_->failures.push_back({rank_, what});
    for (int rank = 0; rank < size(); ++rank) wake_rank(rank);
  }
  std::optional<Failure> failure() override {
    std::lock_guard lock(office_->mutex);
    for (const Failure& failure : office_->failures)
      if (failure.rank != rank_) return failure;
    return std::nullopt;
  }
  // [end snippet]

 private:
  void wake_rank(int rank) {
    office_->woken[rank] = true;
    office_->news.notify_all();
  }

  std::shared_ptr<Office> office_;
  int rank_;
};

}  // namespace

// [snippet run_by_post]
void run_by_post(int ranks, const std::function<void(Transport&)>& body) {
  const auto office = std::make_shared<Office>(ranks);
  run_ranks(ranks, [&](Transport& thread) {
    Seat seat(office, thread.rank());
    try {
      body(seat);
    } catch (const std::exception& error) {
      seat.fail(error.what());  // or the others would wait until their deadlines
      throw;
    }
  });
}
// [end snippet]

}  // namespace plangrad::parallel
