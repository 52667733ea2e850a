// At work: deadlines don't count while somebody works on its own, and count again afterwards.
// Chapter 04.

#include "autograd/error.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/parallel/support/far_transport.h"

using namespace plangrad::tests;

namespace {

/// Three ranks, of which the last is busy for 1.5 s and then tells rank 0 something, so that rank 1
/// is held up by one that is not busy. Each may wait for 0.5 s.
void be_busy(const std::function<void(Transport&)>& busy) {
  run_ranks(3, [&](Transport& transport) {
    all_gather_bytes(transport, "", 60);  // all are there
    if (transport.rank() == 2) busy(transport);
    all_gather_bytes(transport, "x", 0.5);
  });
}

void sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

}  // namespace

TEST_CASE("at work: a rank that says what it works on is waited for", "[at_work]") {
  auto say_so = [](Transport& transport) {
    AtWork saving(transport, Work::saving);
    sleep(1500);
  };
  CHECK_NOTHROW(be_busy(say_so));
  CHECK_THROWS_WITH(be_busy([](Transport&) { sleep(1500); }), Contains("waited 0.5 s for"));
}

TEST_CASE("at work: a rank that gets on in its row is waited for", "[at_work]") {
  auto get_on = [](Transport& transport) {
    for (int cell = 0; cell < 30; ++cell) {
      transport.publish({.cell = cell, .plan = 0});
      sleep(50);
    }
  };
  CHECK_NOTHROW(be_busy(get_on));
}

TEST_CASE("at work: one that computes the same cell for 30 deadlines is given up", "[at_work]") {
  CHECK_THROWS_WITH(run_ranks(2,
                              [](Transport& transport) {
                                transport.publish({.cell = 3, .plan = 0, .work = Work::computing});
                                if (transport.rank() == 0) {
                                  while (transport.position(1).cell != 3) transport.wait(0.001);
                                  return gather_bytes(transport, "", 0.02);
                                }
                                transport.wait(60);  // until rank 0 gives up
                                return std::vector<std::string>();
                              }),
                    Contains("rank 1 was at instruction 3 of its row"));
}

TEST_CASE("at work: it is published, and the position before comes back", "[at_work]") {
  std::atomic<bool> over = false;
  run_ranks(2, [&](Transport& transport) {
    if (transport.rank() == 1) {
      while (!over) transport.wait(0.001);
      return;
    }
    const Position before{.cell = 17, .plan = 3};
    transport.publish(before);
    {
      AtWork reporting(transport, Work::reporting);
      CHECK(transport.position(0).work == Work::reporting);
    }
    over = true;
    CHECK(transport.position(0) == before);
  });
}

TEST_CASE("at work: one that was not heard of for long is not waited for", "[at_work]") {
  const std::string error = error_of([] {
    run_ranks(2, [](Transport& transport) {
      if (transport.rank() == 1) {
        transport.publish({.work = Work::saving});
        gather_bytes(transport, "", 60);
        transport.wait(60);  // until rank 0 gives up
      } else {
        gather_bytes(transport, "", 60);
        FarTransport far(transport);
        gather_bytes(far, "", 0.02);
      }
    });
  });
  CHECK(error ==
        "rank 0: waited 0.02 s for a message of rank 1; rank 1 was last heard of, "
        "100 s ago, saving");
}
