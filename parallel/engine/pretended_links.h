// PretendedNetwork: a transport around another one that holds messages back until they would arrive
// over links that a run pretends to have.
// Not here: when that is (simulation/links.h), and the real way of the bytes, which is the inner
// transport's. Chapter 04.
#pragma once

#include <functional>
#include <mutex>

#include "parallel/simulation/links.h"
#include "parallel/transports/transport.h"

namespace plangrad::parallel {

/// Messages over pretended links, for the ranks of one process. A message begins when both ends
/// have posted it, and is done at both ends when it arrives, as in the simulator; a send
/// whose bytes the inner transport has buffered is done at once. Messages outside of plans
/// (control_channel) are not held back, nor is a sum by the inner transport's own all-reduce
/// offered.
///   one process:     all ranks use this object, so both ends know when the other was posted
///   many processes:  each end takes the moment at which the inner transport is done for the begin
class PretendedNetwork {
 public:
  using Now = std::function<double()>;  ///< seconds since any moment
  /// `shared`: all ranks use this object. Else messages of different pairs of ranks must not wait
  /// for each other: what other processes send is not known here.
  PretendedNetwork(const Topology& topology, bool shared, Now now = steady_now());
  ~PretendedNetwork();
  PretendedNetwork(const PretendedNetwork&) = delete;
  PretendedNetwork& operator=(const PretendedNetwork&) = delete;

  /// A rank's transport over these links. `inner` and the network must outlive it.
  std::unique_ptr<Transport> around(Transport& inner);

  /// The machine's clock.
  static Now steady_now();

 private:
  /// One message: its line, and its number there. In many processes, one end of it.
  struct Place {
    int from, to, channel;
    std::int64_t number;
    int end;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Passage {
    int ends_posted = 0, ends_gone = 0;
    bool started = false, arrived = false;
  };
  class Held;
  class Seat;

  void post(const Place& place, std::int64_t bytes);
  void start(const Place& place, std::int64_t bytes);
  bool has_arrived(const Place& place, std::int64_t bytes);
  void forget(const Place& place);
  double wait_of(int rank);
  void update();

  std::mutex mutex_;
  Traffic traffic_;
  const bool shared_;
  const Now now_;
  std::map<Place, Passage> passages_;
  std::map<std::int64_t, Place> under_way_;  // by number in traffic_
  std::int64_t count_ = 0;
  std::set<int> told_;  // ranks with arrivals since their last wait
};

}  // namespace plangrad::parallel
