// PretendedLinks: when messages arrive over links that a run pretends to have. PretendedNetwork:
// a transport around another one that holds messages back until then.
// Not here: the real way of the bytes, which is the inner transport's. Chapter 04.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "parallel/transports/transport.h"

namespace plangrad::parallel {

/// Links between ranks, as arithmetic: nothing here knows a clock. A message occupies its link for
/// bytes / bandwidth, after those that came before it, and arrives `latency` later.
///   without hosts: each ordered pair of ranks has a link of its own
///   with hosts:    a message to another host occupies the card of the sender's host, outward, and
///                  that of the receiver's host, inward, at the same time; ranks of one host have
///                  links of their own
class PretendedLinks {
 public:
  /// Seconds, and bytes per second.
  struct Speed {
    double latency = 0, bandwidth = 0;
  };
  /// `hosts`: the host of each rank; empty: no rank shares a card.
  /// throws: Error if the latency is negative, or the bandwidth not positive
  explicit PretendedLinks(Speed speed, std::vector<int> hosts = {});

  /// The time at which a message arrives whose two ends are ready at `ready`; occupies its link.
  /// units: seconds since any moment, the same in all calls
  double arrival(int from, int to, std::int64_t bytes, double ready);
  bool share_cards() const { return !hosts_.empty(); }

 private:
  Speed speed_;
  std::vector<int> hosts_;
  std::map<std::pair<int, int>, double> links_;  // when each is free again
  std::map<int, double> out_, in_;               // when the card of each host is
};

/// Messages over pretended links, for the ranks of one process. A message begins when both ends
/// have posted it, and is done at both ends when it arrives, as in the simulator (costs.h); a send
/// whose bytes the inner transport has buffered is done at once. Messages outside of plans
/// (control_channel) are not held back, nor is a sum by the inner transport's own all-reduce
/// offered.
///   one process:     all ranks use this object, so both ends know when the other was posted
///   many processes:  each end takes the moment at which the inner transport is done for the begin
class PretendedNetwork {
 public:
  using Now = std::function<double()>;  ///< seconds since any moment
  /// `shared`: all ranks use this object.
  /// throws: Error if ranks share cards, and are not all here
  PretendedNetwork(PretendedLinks links, bool shared, Now now = steady_now());
  ~PretendedNetwork();
  PretendedNetwork(const PretendedNetwork&) = delete;
  PretendedNetwork& operator=(const PretendedNetwork&) = delete;

  /// A rank's transport over these links. `inner` and the network must outlive it.
  std::unique_ptr<Transport> around(Transport& inner);

  /// The machine's clock.
  static Now steady_now();

 private:
  /// One message: its line, and its number there.
  struct Place {
    int from, to, channel;
    std::int64_t number;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  /// What its two ends have told.
  struct Passage {
    double sent = -1, received = -1;  ///< when each was posted; -1: not yet
    double arrival = -1;              ///< -1: not known yet
    int ends_gone = 0;
  };
  class Held;
  class Seat;

  void post(const Place& place, bool sends);
  double arrival_of(const Place& place, std::int64_t bytes);
  void forget(const Place& place);

  std::mutex mutex_;
  PretendedLinks links_;
  const bool shared_;
  const Now now_;
  std::map<Place, Passage> passages_;
};

}  // namespace plangrad::parallel
