// The threads transport: the suite of all transports and collectives, in both modes; and what only
// threads promise. Chapter 04.
#include "parallel/transports/threads_transport.h"

#include "autograd/error.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/transport_suite.h"
#include "tests/sanitized.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

Message message(int peer, std::vector<int>& data) {
  return {peer, 0, data.data(), static_cast<std::int64_t>(data.size() * sizeof(int))};
}

}  // namespace

TEST_CASE("threads transport: the suite of transports", "[transport]") {
  for (int capacity : {0, 1, 3})
    for (int ranks : {1, 2, 3, 5}) {
      INFO(ranks << " ranks, capacity " << capacity);
      CHECK_NOTHROW(run_ranks(ranks, transport_checks_on_host, capacity));
    }
}

TEST_CASE("threads transport: the suite of collectives", "[transport][collective]") {
  for (int capacity : {0, 2})
    for (int ranks : {1, 2, 3, 4, 5}) {
      if (sanitized && (ranks + capacity / 2) % 2 == 1) continue;  // half of them
      INFO(ranks << " ranks, capacity " << capacity);
      CHECK_NOTHROW(run_ranks(ranks, collective_checks_on_host, capacity));
    }
}

TEST_CASE("threads transport: rendezvous ends a send when its receive is there", "[transport]") {
  ThreadsWorld world(2);
  std::vector<int> sent{1, 2, 3}, arrived(3);
  auto send = world.transport(0).send(message(1, sent));
  CHECK_FALSE(send->done());
  auto receive = world.transport(1).receive(message(0, arrived));
  CHECK(send->done());
  CHECK(receive->done());
  CHECK(arrived == sent);
}

TEST_CASE("threads transport: a buffer takes as many messages as its capacity", "[transport]") {
  ThreadsWorld world(2, 2);
  std::vector<int> data{1};
  std::vector<std::unique_ptr<Request>> sends;
  for (int i = 0; i < 4; ++i) {
    data[0] = i;
    sends.push_back(world.transport(0).send(message(1, data)));
    if (i < 2) CHECK(sends[i]->done());
  }
  CHECK_FALSE(sends[2]->done());
  std::vector<int> arrived(1);
  auto receive = world.transport(1).receive(message(0, arrived));
  CHECK(receive->done());
  CHECK(arrived[0] == 0);  // though the sender has written over it since
  CHECK(sends[2]->done());
  CHECK_FALSE(sends[3]->done());
}

TEST_CASE("threads transport: two sizes of one message", "[transport]") {
  ThreadsWorld world(2);
  std::vector<int> sent(3), arrived(2);
  auto send = world.transport(0).send(message(1, sent));
  auto receive = world.transport(1).receive(message(0, arrived));
  for (Request* request : {send.get(), receive.get()})
    CHECK_THROWS_WITH(request->done(), Contains("rank 0 sent 12 bytes on channel 0") &&
                                           Contains("rank 1 expects 8"));
}

TEST_CASE("threads transport: a request that is gone is withdrawn", "[transport]") {
  int capacity = GENERATE(0, 1);
  ThreadsWorld world(2, capacity);
  std::vector<int> kept{7}, arrived(1);
  {
    std::vector<int> gone{5}, also_gone{6};
    auto first = world.transport(0).send(message(1, gone));
    auto second = world.transport(0).send(message(1, also_gone));
  }
  auto send = world.transport(0).send(message(1, kept));
  if (capacity == 1) {  // the first one was through: its bytes are in the buffer
    auto receive = world.transport(1).receive(message(0, arrived));
    CHECK(receive->done());
    CHECK(arrived[0] == 5);
  }
  { auto given_up = world.transport(1).receive({0, 3, arrived.data(), 4}); }
  auto receive = world.transport(1).receive(message(0, arrived));
  CHECK(receive->done());
  CHECK(send->done());
  CHECK(arrived[0] == 7);
}

TEST_CASE("threads transport: the first failure is what others hear of", "[transport]") {
  ThreadsWorld world(3);
  CHECK_FALSE(world.transport(0).failure());
  world.transport(2).fail("out of memory");
  world.transport(1).fail("stopped");
  for (int rank : {0, 1}) {
    CHECK(world.transport(rank).failure()->rank == 2);
    CHECK(world.transport(rank).failure()->what == "out of memory");
  }
  CHECK(world.transport(2).failure()->rank == 1);  // it knows of itself
  world.transport(0).wait(1e9);                    // ended by the failures
}

TEST_CASE("threads transport: worlds that make no sense", "[transport]") {
  CHECK_THROWS_WITH(ThreadsWorld(0), Contains("at least one"));
  CHECK_THROWS_WITH(ThreadsWorld(2, -1), Contains("capacity of -1"));
  ThreadsWorld world(2);
  CHECK_THROWS_WITH(world.transport(2), Contains("rank 2 of a world of 2 ranks"));
}
