// MessageLane: waits that last as long as they were asked to.
// Not here: messages of whole plans (engine_test.cpp, failures_test.cpp). Chapter 04.
#include "parallel/engine/message_lane.h"

#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

TEST_CASE("message lane: a wait ends with its message, however long it may take",
          "[message_lane]") {
  ThreadsWorld world(1);
  for (double seconds : {1e3, 1e12, 1e30}) {
    CAPTURE(seconds);
    MessageLane lane(world.transport(0));
    auto end = Clock::now() + std::chrono::milliseconds(50);
    TicketPtr ticket =
        lane.post({Queue::Kind::group, 0}, [end](Transport&) { return Clock::now() >= end; });
    CHECK(lane.wait_for_any({ticket.get()}, seconds));
  }
}

TEST_CASE("message lane: a message that does not get through is late", "[message_lane]") {
  ThreadsWorld world(1);
  MessageLane lane(world.transport(0));
  TicketPtr never = lane.post({Queue::Kind::group, 0}, [](Transport&) { return false; });
  TicketPtr behind = lane.post({Queue::Kind::group, 0}, [](Transport&) { return true; });
  TicketPtr beside = lane.post({Queue::Kind::group, 1}, [](Transport&) { return true; });
  CHECK(lane.wait_for_any({beside.get()}, 60));
  CHECK_FALSE(lane.wait_for_any({never.get()}, 0.01));
  CHECK_FALSE(lane.wait_for_any({behind.get()}, 0.01));
  CHECK_FALSE(lane.failure());  // late, not failed
}
