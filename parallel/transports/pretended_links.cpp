// A held request is done when the inner one is and its arrival has come. A rank that waits sleeps
// until the next arrival at the latest.
// Chapter 04.
#include "parallel/transports/pretended_links.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace plangrad::parallel {

PretendedLinks::PretendedLinks(Speed speed, std::vector<int> hosts)
    : speed_(speed), hosts_(std::move(hosts)) {
  PG_CHECK(speed.latency >= 0, "pretended links: the latency is ", speed.latency,
           " s, expected 0 or more");
  PG_CHECK(speed.bandwidth > 0, "pretended links: the bandwidth is ", speed.bandwidth,
           " bytes/s, expected more than 0");
}

// [snippet arrival]
double PretendedLinks::arrival(int from, int to, std::int64_t bytes, double ready) {
  const double seconds = static_cast<double>(bytes) / speed_.bandwidth;
  constexpr double always = std::numeric_limits<double>::lowest();
  std::vector<double*> used;  // until when each is occupied
  if (hosts_.empty() || hosts_.at(from) == hosts_.at(to))
    used = {&links_.try_emplace({from, to}, always).first->second};
  else
    used = {&out_.try_emplace(hosts_[from], always).first->second,
            &in_.try_emplace(hosts_[to], always).first->second};
  double begin = ready;
  for (const double* busy : used) begin = std::max(begin, *busy);
  for (double* busy : used) *busy = begin + seconds;
  return *used.front() + speed_.latency;
}
// [end snippet]

/// One end of a message, held back.
class PretendedNetwork::Held : public Request {
 public:
  Held(PretendedNetwork& network, std::multiset<double>& awaited, const Place& place,
       std::int64_t bytes, std::unique_ptr<Request> inner)
      : network_(network),
        awaited_(awaited),
        place_(place),
        bytes_(bytes),
        inner_(std::move(inner)) {}
  ~Held() override {
    inner_.reset();
    network_.forget(place_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  bool done() override {
    if (!arrival_) {
      if (!inner_->done()) return false;
      arrival_ = network_.arrival_of(place_, bytes_);
      if (network_.now_() < *arrival_) awaited_.insert(*arrival_);
    }
    return network_.now_() >= *arrival_;
  }

 private:
  PretendedNetwork& network_;
  std::multiset<double>& awaited_;
  const Place place_;
  const std::int64_t bytes_;
  std::unique_ptr<Request> inner_;
  std::optional<double> arrival_;
};

/// A rank's transport. Its thread alone touches `awaited_` and `posted_`; what any thread may call
/// goes straight to the inner transport.
class PretendedNetwork::Seat : public Transport {
 public:
  Seat(PretendedNetwork& network, Transport& inner) : network_(network), inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const char* name() const override { return inner_.name(); }

  std::unique_ptr<Request> send(const Message& message) override {
    return hold(message, true, &Transport::send);
  }
  std::unique_ptr<Request> receive(const Message& message) override {
    return hold(message, false, &Transport::receive);
  }

  /// An arrival ends one wait only, for nobody may be interested in it any more.
  void wait(double seconds) override {
    const double now = network_.now_();
    const auto later = awaited_.upper_bound(now);
    const bool arrived = later != awaited_.begin();
    awaited_.erase(awaited_.begin(), later);
    if (arrived) return;
    inner_.wait(awaited_.empty() ? seconds : std::min(seconds, *awaited_.begin() - now));
  }
  void wake() override { inner_.wake(); }

  void publish(Position position) override { inner_.publish(position); }
  Position position(int rank) const override { return inner_.position(rank); }
  double silence(int rank) const override { return inner_.silence(rank); }
  void fail(const std::string& what) override { inner_.fail(what); }
  std::optional<Failure> failure() override { return inner_.failure(); }

 private:
  using Begin = std::unique_ptr<Request> (Transport::*)(const Message&);

  /// Notes the message before the inner transport can complete it.
  std::unique_ptr<Request> hold(const Message& message, bool sends, Begin begin) {
    if (message.channel == control_channel) return (inner_.*begin)(message);
    check_message(*this, message);
    const int from = sends ? rank() : message.peer, to = sends ? message.peer : rank();
    const Place place{from, to, message.channel, posted_[{message.peer, message.channel, sends}]++};
    network_.post(place, sends);
    return std::make_unique<Held>(network_, awaited_, place, message.bytes,
                                  (inner_.*begin)(message));
  }

  PretendedNetwork& network_;
  Transport& inner_;
  std::map<std::tuple<int, int, bool>, std::int64_t> posted_;  // by peer, channel and direction
  std::multiset<double> awaited_;                              // arrivals in the future
};

PretendedNetwork::PretendedNetwork(PretendedLinks links, bool shared, Now now)
    : links_(std::move(links)), shared_(shared), now_(std::move(now)) {
  PG_CHECK(shared || !links_.share_cards(),
           "pretended cards: what queues for a card is known only where all ",
           "ranks are threads of one process");
}

PretendedNetwork::~PretendedNetwork() = default;

std::unique_ptr<Transport> PretendedNetwork::around(Transport& inner) {
  return std::make_unique<Seat>(*this, inner);
}

PretendedNetwork::Now PretendedNetwork::steady_now() {
  return [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
}

void PretendedNetwork::post(const Place& place, bool sends) {
  if (!shared_) return;
  std::lock_guard lock(mutex_);
  Passage& passage = passages_[place];
  (sends ? passage.sent : passage.received) = now_();
}

/// Called at an end whose inner request is done; the first of the two ends decides.
double PretendedNetwork::arrival_of(const Place& place, std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!shared_) return links_.arrival(place.from, place.to, bytes, now_());
  Passage& passage = passages_[place];
  if (passage.arrival >= 0) return passage.arrival;
  const bool both = passage.sent >= 0 && passage.received >= 0;
  if (!both) return now_();  // the inner transport has buffered it
  const double ready = std::max(passage.sent, passage.received);
  return passage.arrival = links_.arrival(place.from, place.to, bytes, ready);
}

void PretendedNetwork::forget(const Place& place) {
  if (!shared_) return;
  std::lock_guard lock(mutex_);
  const auto found = passages_.find(place);
  if (++found->second.ends_gone == 2) passages_.erase(found);
}

}  // namespace plangrad::parallel
