// A transport of this program: the suite that every transport passes, and a run over it.
#include "parallel/transports/launch.h"
#include "tests/adding/added.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"
#include "tests/parallel/support/transport_suite.h"

using namespace paragrad::tests;

TEST_CASE("adding a transport: it passes the suite of transports and collectives", "[adding]") {
  for (int ranks : {1, 2, 3}) {
    // [snippet suite]
    const auto seats = post_office(ranks);
    auto on_its_seat = [&](auto checks) {
      run_ranks(ranks, [&](Transport& thread) { checks(*seats[thread.rank()]); });
    };
    CHECK_NOTHROW(on_its_seat(transport_checks_on_host));
    CHECK_NOTHROW(on_its_seat(collective_checks_on_host));
    // [end snippet]
  }
}

TEST_CASE("adding a transport: a run over it has the bits of threads", "[adding]") {
  const Layout layout{
      .stages = 2, .width = 2, .microbatches = 3, .steps = 3, .clip = true, .tied = true};
  const Training training(gpt(small_gpt()), layout.stages);
  SmallBatches batches(small_gpt());
  const auto plans = plans_of("2bw", layout);
  auto seats = post_office(plans[0].plan().ranks());
  const Outcome by_post = run_by_engine(
      training, plans, batches, 0, AllReduce::scatter_reduce, {}, {}, [&](Transport& thread) {
        return Seat{cpu_device(), std::move(seats[thread.rank()])};
      });
  const Outcome by_threads = run_by_engine(training, plans, batches);
  CHECK(by_post.weights == by_threads.weights);
  CHECK(by_post.losses == by_threads.losses);
}

TEST_CASE("adding a transport: others hear of a rank that fails", "[adding]") {
  const auto seats = post_office(2);
  CHECK_THROWS_WITH(
      run_ranks(2,
                [&](Transport& thread) {
                  Transport& seat = *seats[thread.rank()];
                  if (seat.rank() == 1) {
                    seat.fail("out of paper");
                    return;
                  }
                  int number = 0;
                  auto request = seat.receive({1, 0, &number, sizeof number});
                  wait_for(seat, *request, 60, "a letter", 1);
                }),
      Contains("rank 0: stopped waiting for a letter") && Contains("rank 1: out of paper"));
}
