// Pretended links: requests that are held back by a clock of the test's own, and the suite of all
// transports over them.
// Not here: when messages arrive (tests/parallel/simulation/links_test.cpp). Chapter 04.
#include "parallel/engine/pretended.h"

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/parallel/support/transport_suite.h"
#include "tests/sanitized.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;
using plangrad::autograd::Error;

namespace {

/// 100 bytes take a second.
const Topology slow = pair_links(0.25, 100);

/// Two ranks and their network, on a clock that stands until a test moves it.
struct HeldPair {
  explicit HeldPair(int capacity = 0, bool shared = true)
      : world(2, capacity), network(slow, shared, [this] { return now; }) {
    for (int rank : {0, 1}) seats.push_back(network.around(world.transport(rank)));
  }
  std::unique_ptr<Request> send(int channel = plan_channel) {
    return seats[0]->send({1, channel, sent.data(), 100});
  }
  std::unique_ptr<Request> receive(int channel = plan_channel) {
    return seats[1]->receive({0, channel, arrived.data(), 100});
  }

  double now = 10;
  ThreadsWorld world;
  PretendedNetwork network;
  std::vector<std::unique_ptr<Transport>> seats;
  std::vector<char> sent = std::vector<char>(100, 'x'), arrived = std::vector<char>(100);
};

/// An inner transport on which every message is done at once; it keeps the waits that it was asked
/// for, and does not sleep.
class Instant : public Transport {
 public:
  struct Done : Request {
    bool done() override { return true; }
  };
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const char* name() const override { return "instant"; }
  std::unique_ptr<Request> send(const Message&) override { return std::make_unique<Done>(); }
  std::unique_ptr<Request> receive(const Message&) override { return std::make_unique<Done>(); }
  void wait(double seconds) override { waits.push_back(seconds); }
  void wake() override {}
  void publish(Position) override {}
  Position position(int) const override { return {}; }
  double silence(int) const override { return 0; }
  void fail(const std::string&) override {}
  std::optional<Failure> failure() override { return std::nullopt; }

  std::vector<double> waits;
};

}  // namespace

TEST_CASE("pretended network: links that messages share need all ranks here", "[pretend]") {
  const Topology cards{{{"card", Reach::card, 100}}, 1};
  CHECK_THROWS_WITH(PretendedNetwork(cards, false), Contains("all ranks are threads"));
  CHECK_NOTHROW(PretendedNetwork(cards, true));
}

TEST_CASE("pretended network: both ends are done when the message arrives", "[pretend]") {
  HeldPair pair;
  auto send = pair.send();
  pair.now = 20;
  CHECK_FALSE(send->done());  // nobody receives yet
  auto receive = pair.receive();
  pair.now = 21.2;
  CHECK_FALSE(send->done());
  CHECK_FALSE(receive->done());
  pair.now = 21.25;  // 20 + 100 / 100 + 0.25
  CHECK(receive->done());
  CHECK(send->done());
  CHECK(send->done());
  CHECK(pair.arrived == pair.sent);
}

TEST_CASE("pretended network: a message begins when its later end was posted, not when it is seen",
          "[pretend]") {
  HeldPair pair;
  auto receive = pair.receive();
  auto send = pair.send();
  pair.now = 11.5;  // no end was looked at before
  CHECK(send->done());
  CHECK(receive->done());

  auto first = pair.send(3), second = pair.send(4);  // two channels are one link
  auto to_second = pair.receive(4), to_first = pair.receive(3);
  pair.now = 12.75;
  CHECK(to_second->done());
  CHECK_FALSE(to_first->done());
  pair.now = 13.75;
  CHECK(to_first->done());
}

TEST_CASE("pretended network: ranks in many processes count from the inner arrival", "[pretend]") {
  HeldPair pair(0, false);
  auto send = pair.send(), receive = pair.receive();
  pair.now = 30;
  CHECK_FALSE(receive->done());
  pair.now = 31.25;
  CHECK(receive->done());
  CHECK_FALSE(send->done());  // this end was looked at later
  pair.now = 32.5;
  CHECK(send->done());
}

TEST_CASE("pretended network: a buffered send is done at once, its receive is held", "[pretend]") {
  HeldPair pair(1);
  auto send = pair.send();
  CHECK(send->done());
  send.reset();
  pair.now = 20;
  auto receive = pair.receive();
  pair.now = 21.2;
  CHECK_FALSE(receive->done());
  pair.now = 21.25;
  CHECK(receive->done());
}

TEST_CASE("pretended network: messages outside of plans are not held", "[pretend]") {
  HeldPair pair;
  auto send = pair.send(control_channel), receive = pair.receive(control_channel);
  CHECK(send->done());
  CHECK(receive->done());
}

TEST_CASE("pretended network: a wait ends at the next arrival, and once", "[pretend]") {
  double now = 10;
  PretendedNetwork network(slow, false, [&] { return now; });
  Instant inner;
  const auto seat = network.around(inner);
  std::vector<char> bytes(200);
  seat->wait(5);
  auto first = seat->send({1, 0, bytes.data(), 100}),
       second = seat->send({1, 0, bytes.data(), 200});
  CHECK_FALSE(first->done());   // arrives at 11.25
  CHECK_FALSE(second->done());  // arrives at 13.25
  seat->wait(5);
  seat->wait(0.5);
  now = 11.5;
  seat->wait(5);  // the first has arrived: no sleep
  seat->wait(5);
  CHECK(inner.waits == std::vector<double>{5, 1.25, 0.5, 1.75});
}

TEST_CASE("pretended network: a failure ends the wait for a message on its way", "[pretend]") {
  const auto run = [] {
    PretendedNetwork network(pair_links(1e5, 1e9), true);
    run_ranks(2, [&](Transport& transport) {
      const auto seat = network.around(transport);
      int data = 7;
      const Message message{1 - seat->rank(), plan_channel, &data, sizeof data};
      if (seat->rank() == 1) {
        auto send = seat->send(message);
        while (!seat->position(0).is_known()) seat->wait(0.01);
        throw Error("out of paper");
      }
      auto receive = seat->receive(message);
      receive->done();
      seat->publish({.cell = 0, .plan = 1});
      wait_for(*seat, *receive, 1e4, "the message");
    });
  };
  CHECK_THROWS_WITH(run(), Contains("rank 1: out of paper") &&
                               Contains("rank 0: stopped waiting for the message"));
}

TEST_CASE("pretended network: the suites of transports and of collectives", "[pretend]") {
  for (int capacity : fewer<int>({0, 2}, 1))
    for (int per_host : {0, 2})
      for (bool shared : {true, false}) {
        if (!shared && per_host > 0) continue;
        INFO("capacity " << capacity << ", " << per_host << " a host, shared " << shared);
        Topology quick = pair_links(1e-5, 1e9);
        quick.devices_per_host = per_host;
        if (per_host > 0) quick.links.push_back({"card", Reach::card, 1e9, 1e-5});
        PretendedNetwork network(quick, shared);
        CHECK_NOTHROW(run_ranks(
            3, [&](Transport& t) { transport_checks_on_host(*network.around(t)); }, capacity));
        CHECK_NOTHROW(run_ranks(
            3,
            [&](Transport& t) {
              collective_checks(*network.around(t), plangrad::autograd::cpu_device(), true);
            },
            capacity));
      }
}
