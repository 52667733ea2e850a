// A held request is done when the inner one is and its message has arrived. A rank that waits
// sleeps until the next arrival at the latest; on links that messages share, until the next one
// anywhere, after which those that remain are faster. Chapter 04.
#include "parallel/engine/pretended.h"

#include "parallel/transports/launch.h"

namespace plangrad::parallel {

/// One end of a message, held back.
class PretendedNetwork::Held : public Request {
 public:
  Held(PretendedNetwork& network, const Place& place, std::int64_t bytes,
       std::unique_ptr<Request> inner)
      : network_(network), place_(place), bytes_(bytes), inner_(std::move(inner)) {}
  ~Held() override {
    inner_.reset();
    network_.forget(place_);
  }

  bool done() override {
    inner_done_ = inner_done_ || inner_->done();
    done_ = done_ || (inner_done_ && network_.has_arrived(place_, bytes_));
    return done_;
  }

 private:
  PretendedNetwork& network_;
  const Place place_;
  const std::int64_t bytes_;
  std::unique_ptr<Request> inner_;
  bool inner_done_ = false, done_ = false;
};

/// A rank's transport. Its thread alone touches `posted_`; what any thread may call
/// goes straight to the inner transport.
class PretendedNetwork::Seat : public TransportAround {
 public:
  Seat(PretendedNetwork& network, Transport& inner) : TransportAround(inner), network_(network) {}

  std::unique_ptr<Request> send(const Message& message) override {
    return hold(message, true, &Transport::send);
  }
  std::unique_ptr<Request> receive(const Message& message) override {
    return hold(message, false, &Transport::receive);
  }

  void wait(double seconds) override {
    if (const double most = network_.wait_of(rank()); most > 0)
      inner_.wait(std::min(seconds, most));
  }

 private:
  using Begin = std::unique_ptr<Request> (Transport::*)(const Message&);

  /// Notes the message before the inner transport can complete it.
  std::unique_ptr<Request> hold(const Message& message, bool sends, Begin begin) {
    if (message.channel == control_channel) return (inner_.*begin)(message);
    check_message(*this, message);
    const int from = sends ? rank() : message.peer, to = sends ? message.peer : rank();
    const Place place{from, to, message.channel, posted_[{message.peer, message.channel, sends}]++,
                      network_.shared_ ? 0 : 1 + sends};
    network_.post(place, message.bytes);
    return std::make_unique<Held>(network_, place, message.bytes, (inner_.*begin)(message));
  }

  PretendedNetwork& network_;
  std::map<std::tuple<int, int, bool>, std::int64_t> posted_;  // by peer, channel and direction
};

PretendedNetwork::PretendedNetwork(const Topology& topology, bool shared, Now now)
    : traffic_(topology), shared_(shared), now_(std::move(now)) {
  PG_CHECK(shared || !topology.shares_links(),
           "pretended links: what shares a link is known only where all ranks are threads of one ",
           "process");
}

std::unique_ptr<Transport> PretendedNetwork::around(Transport& inner) {
  return std::make_unique<Seat>(*this, inner);
}

void PretendedNetwork::post(const Place& place, std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (++passages_[place].ends_posted == 2) start(place, bytes);
}

void PretendedNetwork::start(const Place& place, std::int64_t bytes) {
  update();
  passages_[place].started = true;
  under_way_[count_] = place;
  traffic_.start(place.from, place.to, bytes, now_(), count_++);
}

/// Called at an end whose inner request is done.
bool PretendedNetwork::has_arrived(const Place& place, std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  Passage& passage = passages_[place];
  if (!passage.started && shared_) return true;  // the inner transport has buffered it
  if (!passage.started) start(place, bytes);
  update();
  return passage.arrived;
}

void PretendedNetwork::forget(const Place& place) {
  std::lock_guard lock(mutex_);
  const auto found = passages_.find(place);
  if (++found->second.ends_gone == (shared_ ? 2 : 1)) passages_.erase(found);
}

/// Seconds until something may arrive at a rank, or leave it; 0 if something has since the last
/// call. That ends one wait only, for nobody may be interested in it any more.
double PretendedNetwork::wait_of(int rank) {
  std::lock_guard lock(mutex_);
  update();
  return told_.erase(rank) > 0 ? 0 : traffic_.soonest(rank) - now_();
}

/// Notes what has arrived by now.
void PretendedNetwork::update() {
  while (const auto arrival = traffic_.next(now_())) {
    const Place place = under_way_.extract(arrival->number).mapped();
    if (const auto found = passages_.find(place); found != passages_.end())
      found->second.arrived = true;
    told_.insert({place.from, place.to});
  }
}

}  // namespace plangrad::parallel
