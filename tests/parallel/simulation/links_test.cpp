// Traffic: when messages arrive that share links.
// Not here: what collectives send (meetings_test.cpp), and runs on such links
// (tests/parallel/engine). Chapter 04.
#include "parallel/simulation/links.h"

#include <limits>

#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

using Times = std::vector<double>;

struct Sent {
  int from, to;
  std::int64_t bytes;
  double ready;
};

/// The arrivals of messages that become ready in this order.
Times arrivals(const Topology& topology, const std::vector<Sent>& messages) {
  constexpr double never = std::numeric_limits<double>::infinity();
  Traffic traffic(topology);
  Times times(messages.size(), -1);
  auto take = [&](double until) {
    while (const auto arrival = traffic.next(until)) times[arrival->number] = arrival->time;
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [from, to, bytes, ready] = messages[i];
    take(ready);
    traffic.start(from, to, bytes, ready, static_cast<std::int64_t>(i));
  }
  take(never);
  CHECK(traffic.soonest(0) == never);
  return times;
}

/// 100 bytes take a second on a card, and a tenth of one within a host.
Topology cards(int devices_per_host, double latency = 0) {
  return {{{"card", Reach::card, 100, latency}, {"inside", Reach::pair, 1000, 0}},
          devices_per_host};
}

}  // namespace

TEST_CASE("links: a message occupies the link of its pair, and its latency does not", "[links]") {
  const Topology slow = pair_links(0.25, 100);
  CHECK(arrivals(slow, {{0, 1, 100, 10}, {0, 1, 50, 10}, {0, 1, 0, 10}}) ==
        Times{11.25, 11.75, 11.75});
  CHECK(arrivals(slow, {{0, 1, 100, 10}, {1, 0, 100, 10}, {0, 2, 100, 10}}) ==
        Times{11.25, 11.25, 11.25});
  CHECK(arrivals(slow, {{0, 1, 100, 10}, {0, 1, 100, 20}}) == Times{11.25, 21.25});
  CHECK_FALSE(slow.shares_links());
  const Topology inside{{{"inside", Reach::pair, 1000, 0}}, 2};
  CHECK_THROWS_WITH(arrivals(inside, {{0, 2, 1, 0}}), Contains("no link joins hosts"));
}

TEST_CASE("links: messages that share a card take as long as their bytes, and wait alike",
          "[links]") {
  const Topology two = cards(2);
  CHECK(two.shares_links());
  CHECK(arrivals(two, {{0, 2, 100, 0}, {1, 3, 100, 0}}) == Times{2, 2});
  CHECK(arrivals(two, {{0, 2, 100, 0}, {1, 3, 100, 1}}) == Times{1, 2});
  CHECK(arrivals(two, {{0, 2, 100, 0}, {1, 3, 50, 0.5}}) == Times{1.5, 1.5});
  // The other way, and within a host, other links are used.
  CHECK(arrivals(two, {{0, 2, 100, 0}, {2, 0, 100, 0}, {0, 1, 100, 0}}) == Times{1, 1, 0.1});
  CHECK(arrivals(cards(2, 0.5), {{0, 2, 100, 0}, {1, 3, 100, 0}}) == Times{2.5, 2.5});
}

TEST_CASE("links: what a message can't use goes to the others", "[links]") {
  // Three messages into host 1 have a third each. The rest of host 3's card is the fourth's.
  const Times times =
      arrivals(cards(1), {{0, 1, 100, 0}, {2, 1, 100, 0}, {3, 1, 100, 0}, {3, 4, 100, 0}});
  CHECK(times[0] == Approx(3));
  CHECK(times[2] == Approx(3));
  CHECK(times[3] == Approx(1.5));
}

TEST_CASE("links: a receiver's busy card holds back no message to others", "[links]") {
  for (int hosts : {2, 4, 8}) {
    std::vector<Sent> all;  // from everybody to everybody, in the same order of receivers
    for (int from = 0; from < hosts; ++from)
      for (int to = 0; to < hosts; ++to)
        if (to != from) all.push_back({from, to, 100, 0.001 * from});
    const Times times = arrivals(cards(1), all);
    const double last = *std::ranges::max_element(times), bound = hosts - 1;
    CAPTURE(hosts);
    CHECK(last >= bound);
    CHECK(last < 1.01 * bound);
  }
}

TEST_CASE("links: devices, buses, a link that all of a host share, and one way at a time",
          "[links]") {
  const Topology port{{{"port", Reach::device, 100}}, 4};
  CHECK(arrivals(port, {{0, 1, 100, 0}, {0, 2, 100, 0}, {3, 2, 100, 0}}) == Times{2, 2, 2});
  CHECK(arrivals(port, {{0, 1, 100, 0}, {2, 3, 100, 0}, {1, 0, 100, 0}}) == Times{1, 1, 1});
  const Topology memory{{{"memory", Reach::host, 100}}, 4};
  CHECK(arrivals(memory, {{0, 1, 100, 0}, {2, 3, 100, 0}, {4, 5, 100, 0}}) == Times{2, 2, 1});
  const Topology bus{{{"bus", Reach::bus, 50, 0.25}, {"card", Reach::card, 100, 0.5}}, 2};
  CHECK(arrivals(bus, {{0, 2, 100, 0}, {1, 3, 100, 0}}) == Times{2.75, 2.75});
  CHECK(arrivals(bus, {{0, 2, 100, 0}, {1, 2, 100, 0}}) == Times{4.75, 4.75});
  const Topology either{{{"card", Reach::card, 100, 0, true}}, 1};
  CHECK(arrivals(either, {{0, 1, 100, 0}, {1, 0, 100, 0}}) == Times{2, 2});
}

TEST_CASE("links: ranks have the devices that a topology gives them", "[links]") {
  Topology topology = cards(2);
  topology.devices = {0, 2, 1, 3, 0};
  CHECK(topology.host(1) == 1);
  CHECK(topology.host(2) == 0);
  CHECK(arrivals(topology, {{0, 1, 100, 0}, {0, 2, 100, 0}, {0, 4, 100, 7}}) == Times{1, 0.1, 7});
}

TEST_CASE("links: speeds that make no sense", "[links]") {
  CHECK_THROWS_WITH(Traffic(pair_links(-1, 100)), Contains("links: the latency is -1 s"));
  CHECK_THROWS_WITH(Traffic(pair_links(0, 0)), Contains("links: the bandwidth is 0 bytes/s"));
}
