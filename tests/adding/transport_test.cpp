// A transport of this program: the suite that every transport passes, and a run over it.
// Not here: the transport (transport.cpp). Chapter 14.

#include "parallel/transports/launch.h"
#include "tests/adding/added.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"
#include "tests/parallel/support/transport_suite.h"

using namespace plangrad::tests;

TEST_CASE("adding a transport: it passes the suite of transports and collectives", "[adding]") {
  // [snippet suite]
  for (int ranks : {1, 2, 3}) {
    CHECK_NOTHROW(run_by_post(ranks, transport_checks_on_host));
    CHECK_NOTHROW(run_by_post(ranks, collective_checks_on_host));
  }
  // [end snippet]
}

TEST_CASE("adding a transport: a run over it has the losses of threads", "[adding]") {
  Layout layout{.stages = 2, .width = 2, .microbatches = 3, .steps = 4};
  layout.clip = layout.tied = true;
  const Training training(gpt(small_gpt()), layout.stages);
  SmallBatches batches(small_gpt());
  const auto plans = plans_of("2bw", layout);
  std::vector<std::map<int, double>> losses(plans[0].plan().ranks());
  run_by_post(plans[0].plan().ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {});
    losses[transport.rank()] = engine.run(plans[0], batches).losses;
  });
  std::map<int, double> all;
  for (auto& each : losses) all.merge(each);
  CHECK(all.size() == 4 * 2 * 3);
  CHECK(all == run_by_engine(training, plans, batches).losses);
}

TEST_CASE("adding a transport: others hear of a rank that fails", "[adding]") {
  auto body = [](Transport& transport) {
    PG_CHECK(transport.rank() != 1, "out of paper");
    int number = 0;
    const auto letter = transport.receive({1, 0, &number, sizeof number});
    wait_for(transport, *letter, 60, "a letter", 1);
  };
  CHECK_THROWS_WITH(run_by_post(2, body),
                    Contains("rank 1: out of paper") && Contains("stopped waiting for a letter"));
}
