// The examples of chapter 04, as they stand in its text.
#include <fstream>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/folders.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

TEST_CASE("chapter 04: two ranks that both send first") {
  // [snippet both_send]
  std::vector<int> received(2, -1);
  auto swap_numbers = [&received](Transport& transport) {
    int peer = 1 - transport.rank(), mine = 10 + transport.rank();
    auto sent = transport.send({peer, plan_channel, &mine, sizeof mine});
    wait_for(transport, *sent, 0.2, "my number to be taken", peer);
    int& theirs = received[transport.rank()];
    auto request = transport.receive({peer, plan_channel, &theirs, sizeof theirs});
    wait_for(transport, *request, 0.2, "the other's number", peer);
  };
  run_ranks(2, swap_numbers, /*capacity*/ 1);
  CHECK(received == std::vector<int>{11, 10});
  CHECK_THROWS_WITH(run_ranks(2, swap_numbers, /*capacity*/ 0),
                    Contains("waited 0.2 s for my number to be taken"));
  // [end snippet]
}

TEST_CASE("chapter 04: a plan that needs room for a message in a channel") {
  std::ifstream in(clone_path("tutorials/figures/capacity.plan"));
  std::stringstream text;
  text << in.rdbuf();
  std::vector<VerifiedPlan> plans{verify(parse(text.str()))};
  CHECK(plans[0].facts().capacity == 1);
  // With a lane of its own for messages, the engine gets through without any room.
  Training training = small_training(2);
  SmallBatches batches(small_gpt());
  Outcome serial = run_serially(training, plans, batches);
  for (int capacity : {0, 1})
    CHECK(run_by_engine(training, plans, batches, capacity).weights == serial.weights);
}

namespace {

/// One line a round: "send 3 to 1, add 2 from 3".
std::vector<std::string> lines(const Collective& collective) {
  static const char* const words[] = {"send ", "copy ", "add ", "carry "};
  std::vector<std::string> result;
  for (const Round& round : collective.rounds) {
    std::string& line = result.emplace_back();
    for (const Exchange& x : round)
      line += text(line.empty() ? "" : ", ", words[static_cast<int>(x.action)], x.chunk,
                   x.action == Exchange::Action::send ? " to " : " from ", x.peer);
  }
  return result;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("chapter 04: an all-reduce is a list") {
  // [snippet list]
  CHECK(lines(all_reduce({AllReduce::ring}, /*member*/ 0, /*members*/ 4)) ==
        Lines{"send 3 to 1, add 2 from 3",   // sums travel to the right and grow on their way
              "send 2 to 1, add 1 from 3",   //
              "send 1 to 1, add 0 from 3",   // chunk 0 is complete
              "send 0 to 1, copy 3 from 3",  // and goes round once more, as all of them do
              "send 3 to 1, copy 2 from 3",  //
              "send 2 to 1, copy 1 from 3"});
  // [end snippet]
  // [snippet direct_list]
  CHECK(
      lines(all_reduce({AllReduce::scatter_reduce}, /*member*/ 2, /*members*/ 4)) ==
      Lines{"send 3 to 3, send 0 to 0, send 1 to 1, carry 2 from 0, add 2 from 1, add 2 from 3",
            "send 2 to 3, send 2 to 0, send 2 to 1, copy 0 from 0, copy 1 from 1, copy 3 from 3"});
  // [end snippet]
}

TEST_CASE("chapter 04: the order of a sum is seen in its bits") {
  // [snippet order]
  auto sum_of_four = [](AllReduce how) {
    std::vector<std::vector<double>> results(4);
    run_ranks(4, [&](Transport& transport) {
      int rank = transport.rank();
      double mine = std::vector<double>{1e8, 1, -1e8, 1}[rank];
      Tensor x = full({4}, mine, DType::f32, cpu_device());
      CollectiveRun run(all_reduce({how}, rank, 4), x, {0, 1, 2, 3}, group_channel(0));
      finish(run, transport, 10);
      results[rank] = to_host(x);
    });
    CHECK(results == std::vector(4, results[0]));  // all ranks hold the same bits
    return results[0];
  };
  CHECK(sum_of_four(AllReduce::scatter_reduce) == std::vector<double>{1, 1, 1, 1});
  CHECK(sum_of_four(AllReduce::ring) == std::vector<double>{0, 1, 0, 1});
  // [end snippet]
}
