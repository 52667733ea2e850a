// Launch: whose report comes first, deadlines, and helpers that stop when somebody has failed.
// Chapter 04.
#include "parallel/transports/launch.h"

#include <atomic>

#include "autograd/error.h"
#include "tests/catch.h"
#include "tests/error_of.h"

using namespace plangrad::parallel;
using plangrad::autograd::Error;

namespace {

/// What run_ranks throws.
std::string error_of(int ranks, const std::function<void(Transport&)>& body) {
  return plangrad::tests::error_of([&] { run_ranks(ranks, body); });
}

}  // namespace

TEST_CASE("launch: every rank runs once", "[launch]") {
  std::atomic<int> sum = 0, size = 0;
  run_ranks(4, [&](Transport& transport) {
    sum += 1 << (4 * transport.rank());
    size += transport.size();
  });
  CHECK(sum == 0x1111);
  CHECK(size == 16);
}

TEST_CASE("launch: the cause is reported first, then who stopped because of it", "[launch]") {
  std::string error = error_of(3, [](Transport& transport) {
    if (transport.rank() == 2) throw Error("the file is empty");
    int byte = 0;
    auto request = transport.receive({2, 0, &byte, 1});
    wait_for(transport, *request, 60, "a message of rank 2", 2);
  });
  CHECK_THAT(error, StartsWith("rank 2: the file is empty\n"));
  for (int rank : {0, 1}) {
    std::string follower = "\nrank " + std::to_string(rank) +
                           ": stopped waiting for a message of rank 2 because of rank 2";
    CHECK_THAT(error + '\n', Contains(follower + '\n'));  // which has told the rest
  }
}

TEST_CASE("launch: a report that names its rank is not marked twice", "[launch]") {
  CHECK(error_of(1, [](Transport&) { throw Error("rank 0: no data"); }) == "rank 0: no data");
  CHECK(error_of(1, [](Transport&) { throw 7; }) ==
        "rank 0: an exception that is not a std::exception");
  CHECK(report(-1, "told to stop") == "told to stop");
}

TEST_CASE("launch: a wait ends at its deadline and says where the other one was", "[launch]") {
  std::atomic<bool> published = false;
  std::string error = error_of(2, [&](Transport& transport) {
    if (transport.rank() == 1) {
      transport.publish({.cell = 17, .plan = 0});
      published = true;
    } else {
      while (!published) transport.wait(0.001);
      int byte = 0;
      auto request = transport.receive({1, 0, &byte, 1});
      wait_for(transport, *request, 0.02, "2a5<1", 1);
    }
  });
  CHECK(error == "rank 0: waited 0.02 s for 2a5<1; rank 1 was at instruction 17 of its row");
}

TEST_CASE("launch: gathering stops when a rank is missing", "[launch]") {
  std::string error = error_of(2, [](Transport& transport) {
    if (transport.rank() == 0) all_gather_bytes(transport, "x", 0.05);
  });
  CHECK_THAT(error, Contains("waited 0.05 s for a message of rank 1; rank 1 was not heard of"));
}

TEST_CASE("launch: no ranks", "[launch]") {
  CHECK_THROWS_WITH(run_ranks(0, [](Transport&) {}), Contains("at least one"));
}
