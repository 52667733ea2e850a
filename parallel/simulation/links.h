// Links: which links a message takes, who shares them with it, and when it arrives. Nothing here
// knows a clock, so runs over pretended links and simulations find the same arrivals.
// Not here: which machine has which links (machine.h), what sums and gathers send (meetings.cpp).
// Chapters 04 and 06.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace plangrad::parallel {

/// Which messages use a link.
enum class Reach {
  pair,    ///< within a host: each ordered pair of devices has one
  device,  ///< within a host: each device has one out and one in
  host,    ///< within a host: all of its messages share one
  bus,     ///< between hosts: each device has one to its host and one from it
  card,    ///< between hosts: each host has one out and one in
};

struct Link {
  std::string name;
  Reach reach = Reach::pair;
  double bandwidth = 0;  ///< bytes per second
  double latency = 0;    ///< seconds added to each message that uses it
  bool one_way = false;  ///< out and in are one, and share its bandwidth
};

/// One of the links that an entry of a topology stands for.
struct LinkUse {
  int place = 0;             ///< the entry's place in the topology
  int way = 0;               ///< 1: in, on a link that has an out of its own
  int owner = 0, other = 0;  ///< the device or host whose link it is; the other device of a pair
  friend auto operator<=>(const LinkUse&, const LinkUse&) = default;
};

/// The links of devices, and the device of each rank.
struct Topology {
  std::vector<Link> links = {};
  int devices_per_host = 0;       ///< 0: all devices are on one host
  std::vector<int> devices = {};  ///< the device of each rank; empty: rank r computes on device r

  int device(int rank) const { return devices.empty() ? rank : devices.at(rank); }
  int host(int rank) const { return devices_per_host > 0 ? device(rank) / devices_per_host : 0; }
  /// Whether messages of different pairs of ranks can delay each other.
  bool shares_links() const;
  /// Calls take(link, use) for each link that a message takes.
  void for_each_link(int from, int to, auto&& take) const {
    const int ends[] = {device(from), device(to)}, hosts[] = {host(from), host(to)};
    if (ends[0] == ends[1]) return;
    for (int place = 0; place < static_cast<int>(links.size()); ++place) {
      const Link& link = links[place];
      if ((link.reach < Reach::bus) != (hosts[0] == hosts[1])) continue;
      const bool has_two_ends = link.reach != Reach::pair && link.reach != Reach::host;
      const bool of_host = link.reach == Reach::host || link.reach == Reach::card;
      for (int way = 0; way <= (has_two_ends ? 1 : 0); ++way)
        take(link, LinkUse{place, link.one_way ? 0 : way, of_host ? hosts[way] : ends[way],
                           link.reach == Reach::pair ? ends[1] : 0});
    }
  }
};

/// A link of its own for each ordered pair of ranks.
Topology pair_links(double latency, double bandwidth);

/// throws: Error if a latency is negative, or a bandwidth not positive
void check(const Topology& topology);

/// Messages on their way. Messages from one rank to another follow each other. The first ones of
/// all pairs that use a link share its bandwidth: each has the same part, except that what one
/// can't use, since it has less elsewhere, goes to the others (max-min fairness). So no link is
/// idle while a message could use it, and moments that differ by little lead to arrivals that do.
/// Messages between ranks on one device arrive at once.
class Traffic {
 public:
  struct Arrival {
    double time;
    std::int64_t number;
    std::pair<int, int> ranks;  ///< from, to
    friend bool operator<(const Arrival& a, const Arrival& b) {
      return std::tie(a.time, a.number, a.ranks) < std::tie(b.time, b.number, b.ranks);
    }
  };

  /// throws: Error as check() does
  explicit Traffic(Topology topology) : topology_(std::move(topology)) { check(topology_); }

  /// A message leaves at `now`, which is not before what other calls were told.
  /// number: the caller's name for it
  void start(int from, int to, std::int64_t bytes, double now, std::int64_t number);
  /// The next arrival up to `until`, if there is one; several at once in the order of numbers.
  std::optional<Arrival> next(double until);
  /// The earliest moment at which next() may find something; infinite: nothing is on its way.
  ///   rank: only what concerns its messages, where it shares no link with others
  double soonest(int rank) const;

 private:
  using Pair = std::pair<int, int>;
  struct Message {
    std::int64_t bytes, number;
  };
  struct Flow {  // from one rank to another
    Pair ranks;
    std::vector<int> links = {};
    double latency = 0;
    std::deque<Message> messages = {};              // the first is under way
    double left = 0, since = 0, rate = 0, end = 0;  // bytes, from when on, bytes/s; when it is out
    bool reached = false;                           // by share()
  };
  Flow& flow_of(const Pair& pair);
  void set_end(Flow& flow, double end);
  void leave(Flow& flow, double now);
  void share(const Flow& changed, double now);

  const Topology topology_;
  std::map<Pair, Flow> flows_;
  std::map<LinkUse, int> numbers_;  // of links
  std::vector<double> bandwidths_;
  std::vector<std::vector<Flow*>> users_;             // by link
  std::set<std::tuple<double, Pair, Flow*>> active_;  // by when they are out
  std::multiset<Arrival> arriving_;
  struct Rest {
    double bandwidth = 0;
    int flows = -1;  // without a rate; less than 0: the link is not reached
  };
  std::vector<Rest> rest_;  // by link; used by share(), as what follows
  std::vector<int> reached_links_;
  std::vector<Flow*> reached_flows_;
};

}  // namespace plangrad::parallel
