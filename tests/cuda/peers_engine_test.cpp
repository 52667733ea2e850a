// Training over NCCL on the harshest machine: allocations wait for peers, operations of NCCL come
// one at a time, streams share few hardware queues. It trains as elsewhere, and never makes a call
// that may wait for peers once ranks are connected.
// Not here: the faults themselves (peers_test.cpp). Chapter 13.
#include "cuda/emulator/runtime.h"
#include "cuda/transport/staged_transport.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/parallel/support/combinations.h"
#include "tests/parallel/support/grid.h"
#include "tests/sanitized.h"

using namespace plangrad;
using namespace plangrad::tests;
using plangrad::cuda::emulator::calls_that_may_wait;

namespace {

Seat by_nccl(Transport& inner) {
  const DevicePtr device = device_of(inner.rank());
  return {device, cuda::make_nccl_transport(inner, backend_of(device), 20)};
}

struct Run {
  const char* schedule;
  Layout layout;
  AllReduce reduction;
  int communicators;  ///< of each rank
};

/// A pair of stages or replicas has one communicator, whatever goes between them.
const std::vector<Run> runs{
    {"2bw", {.stages = 2, .width = 2, .microbatches = 2, .steps = 2}, AllReduce::by_transport, 2},
    {"data", {.stages = 3, .width = 3, .microbatches = 2, .steps = 2}, AllReduce::by_transport, 1},
    {"data", {.width = 3, .steps = 2, .zero = 1}, AllReduce::scatter_reduce, 2},
    {"data", {.stages = 2, .width = 3, .steps = 2, .zero = 1}, AllReduce::by_transport, 1},
    {"data", {.stages = 2, .width = 3, .steps = 2, .zero = 3}, AllReduce::by_transport, 1},
    {"1f1b", {.stages = 4, .microbatches = 3, .steps = 2}, AllReduce::by_transport, -1}};

Training training_for(const Run& run) {
  return training_of({run.schedule, 1, run.layout.stages, 1, false, false, false, false});
}

Outcome outcome(const Run& run, const Settings& settings) {
  SmallBatches batches(small_gpt());
  Machine machine(settings);
  return run_by_engine(training_for(run), plans_of(run.schedule, run.layout, 2), batches, 0,
                       run.reduction, {}, {}, by_nccl);
}

}  // namespace

TEST_CASE("peers: training over NCCL needs no second operation, no many queues, no idle peers") {
  for (const Run& run : fewer(runs, 1)) {
    const Outcome expected = outcome(run, {.schedule = QueueSchedule::eager});
    for (QueueSchedule schedule :
         {QueueSchedule::eager, QueueSchedule::lazy, QueueSchedule::random}) {
      CAPTURE(run.schedule, int(schedule));
      const Outcome harsh = outcome(
          run, {.schedule = schedule, .queues = 2, .peer_waits = 1, .one_nccl_operation = true});
      check_same_bits(harsh, expected);
    }
  }
}

TEST_CASE("peers: once ranks are connected, no call may wait for peers") {
  for (const Run& run : fewer(runs, 1)) {
    CAPTURE(run.schedule);
    const Training training = training_for(run);
    const auto plans = plans_of(run.schedule, run.layout, 2);
    SmallBatches batches(small_gpt());
    Machine machine;
    const int ranks = plans[0].plan().ranks();
    std::vector<int> calls(ranks);
    run_ranks(ranks, [&](Transport& inner) {
      const Seat seat = by_nccl(inner);
      Engine engine(training, *seat.transport, seat.device, {run.reduction, 20});
      for (const VerifiedPlan& plan : plans) engine.run(plan, batches);
      calls[inner.rank()] = calls_that_may_wait(inner.rank());
      all_gather_bytes(*seat.transport, "", 20);  // nobody ends before
    });
    // The first communicator makes peers, so only others may wait for them.
    if (run.communicators > 0)
      CHECK(calls == std::vector<int>(ranks, run.communicators - 1));
    else
      CHECK(calls == std::vector<int>{0, 1, 1, 0});  // a pipeline has two ends
  }
}
