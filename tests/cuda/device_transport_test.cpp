// Messages of device memory, staged and by NCCL: the suites of all transports, and what is right
// only if kernels and messages are ordered.
// Not here: the transports of host memory below them (tests/parallel). Chapter 04.

#include "autograd/ops.h"
#include "cuda/transport/staged_transport.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/cuda/meeting.h"
#include "tests/error_of.h"
#include "tests/numbers.h"
#include "tests/parallel/support/transport_suite.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;
using plangrad::cuda::StagedTransport;

namespace {

constexpr double timeout = 60;

std::unique_ptr<Transport> make(Transport& inner, const DevicePtr& device, bool by_nccl) {
  if (by_nccl) return make_nccl_transport(inner, backend_of(device), timeout);
  return std::make_unique<StagedTransport>(inner, backend_of(device));
}

/// body(transport, device) on a thread a rank, each with a device. Memory that was freed is gone.
template <class Body>
void on_devices(int ranks, bool by_nccl, int capacity, Body body) {
  run_ranks(
      ranks,
      [&](Transport& inner) {
        const DevicePtr device = strict_device(inner.rank());
        const std::unique_ptr<Transport> transport = make(inner, device, by_nccl);
        body(*transport, device);
      },
      capacity);
}

Message message(int peer, const Tensor& x) { return {peer, 0, x.raw(), x.bytes()}; }

/// Asks until it is done.
void finish(Transport& transport, Request& request) {
  wait_for(transport, request, timeout, "a message");
}

}  // namespace

TEST_CASE("device transports: the suite of transports") {
  for (QueueSchedule schedule : all_schedules)
    for (int ranks : sanitized ? std::vector<int>{3} : std::vector<int>{1, 2, 4})
      for (bool by_nccl : nccl_choices(ranks)) {
        CAPTURE(int(schedule), by_nccl, ranks);
        Machine machine({.schedule = schedule});
        CHECK_NOTHROW(on_devices(ranks, by_nccl, ranks % 3, transport_checks));
      }
}

TEST_CASE("device transports: messages of host memory go by the transport below") {
  for (bool by_nccl : nccl_choices(2)) {
    Machine machine;
    auto body = [](Transport& transport, const DevicePtr&) { transport_checks_on_host(transport); };
    CHECK_NOTHROW(on_devices(2, by_nccl, 0, body));
  }
}

TEST_CASE("device transports: the suite of collectives") {
  for (int ranks : sanitized ? std::vector<int>{3} : std::vector<int>{2, 4})
    for (bool by_nccl : nccl_choices(ranks)) {
      CAPTURE(by_nccl, ranks);
      Machine machine({.schedule = ranks == 2 ? QueueSchedule::lazy : QueueSchedule::eager});
      auto body = [](Transport& transport, const DevicePtr& device) {
        collective_checks(transport, device, /*quick*/ true);
      };
      CHECK_NOTHROW(on_devices(ranks, by_nccl, 0, body));
    }
}

TEST_CASE("device transports: a message follows the kernels that were queued before it") {
  for (QueueSchedule schedule : all_schedules)
    for (bool by_nccl : nccl_choices(2)) {
      CAPTURE(int(schedule), by_nccl);
      Machine machine({.schedule = schedule});
      std::vector<double> sent, read_before, arrived;
      on_devices(2, by_nccl, 0, [&](Transport& transport, const DevicePtr& device) {
        const Tensor x = full({1000}, 1, DType::f32, device);
        if (transport.rank() == 0) {
          x.backend().fill(5, x);  // which the message must wait for
          finish(transport, *transport.send(message(1, x)));
          x.backend().fill(7, x);  // after it
          sent = to_host(x);
        } else {
          Tensor copy = empty_like(x);
          x.backend().copy(x, copy);  // reads what the message replaces
          finish(transport, *transport.receive(message(0, x)));
          read_before = to_host(copy);
          arrived = to_host(x);
        }
      });
      CHECK(sent == std::vector<double>(1000, 7));
      CHECK(read_before == std::vector<double>(1000, 1));
      CHECK(arrived == std::vector<double>(1000, 5));
    }
}

TEST_CASE("device transports: messages keep their order, whichever is asked for first") {
  for (bool by_nccl : nccl_choices(2)) {
    CAPTURE(by_nccl);
    Machine machine;
    std::vector<double> arrived;
    on_devices(2, by_nccl, 3, [&](Transport& transport, const DevicePtr& device) {
      std::vector<Tensor> values;
      std::vector<std::unique_ptr<Request>> requests;
      for (int i = 0; i < 3; ++i) {
        values.push_back(full({1}, i, DType::f32, device));
        const Message own = message(1 - transport.rank(), values[i]);
        requests.push_back(transport.rank() == 0 ? transport.send(own) : transport.receive(own));
      }
      for (int i = 0; i < 20; ++i) requests[2]->done();  // cannot be, and must not overtake
      for (auto& request : requests) finish(transport, *request);
      if (transport.rank() == 1)
        for (const Tensor& value : values) arrived.push_back(item(value));
    });
    CHECK(arrived == std::vector<double>{0, 1, 2});
  }
}

TEST_CASE("device transports: a staged request that is gone leaves its memory alone") {
  Machine machine;
  ThreadsWorld world(2);
  const DevicePtr device = strict_device();
  StagedTransport transport(world.transport(0), backend_of(device));
  {
    const Tensor x = full({4}, 1, DType::f32, device);
    transport.send(message(1, x));  // queues a copy, and is given up
  }
  backend_of(device).synchronize();  // now x is freed
  const Tensor y = full({4}, 2, DType::f32, device);
  std::vector<float> arrived(4);
  auto receive = world.transport(1).receive({0, 0, arrived.data(), y.bytes()});
  finish(transport, *transport.send(message(1, y)));
  CHECK(receive->done());
  CHECK(arrived == std::vector<float>(4, 2));
}

TEST_CASE("device transports: memory of another rank's device is refused") {
  Machine machine;
  if (devices() < 2) SKIP_TEST("there is one device");
  ThreadsWorld world(1);
  const DevicePtr own = device_of(0), other = device_of(1);
  StagedTransport transport(world.transport(0), backend_of(own));
  const Tensor x = full({4}, 1, DType::f32, other);
  CHECK_THROWS_WITH(transport.send(message(0, x)),
                    "rank 0: a message of memory of device 1; expected the rank's own, 0");
}

namespace {

/// The receiver, and it alone, has called NCCL; then the culprit gives up.
std::string report_of_a_broken_message(int culprit) {
  auto body = [&](Transport& transport, const DevicePtr& device) {
    const int rank = transport.rank();
    std::optional<Tensor> x = full({4}, 1, DType::f32, device);
    auto request = rank == 0 ? transport.send(message(1, *x)) : transport.receive(message(0, *x));
    meet(transport, 1);  // the offer is there
    if (rank == 1) PG_CHECK(!request->done(), "nobody has sent it");
    if (rank == 1 && culprit == 1) {
      request.reset();
      x.reset();
      backend_of(device).synchronize();  // the memory is gone
    }
    meet(transport, 2);
    if (rank == 0 && culprit == 1)
      for (int i = 0; i < 20; ++i) PG_CHECK(!request->done(), "nobody has received it");
    meet(transport, 3);
    PG_CHECK(rank != culprit, "the file is empty");
    wait_for_failure(transport);
    finish(transport, *request);
  };
  return error_of([&] { on_devices(2, true, 0, body); });
}

}  // namespace

TEST_CASE("device transports: a message that a rank gives up in the middle ends in a report") {
  if (!nccl_works(2)) SKIP_TEST("NCCL needs two devices");
  for (int culprit : {0, 1}) {
    Machine machine({.silent_aborts = double(culprit)});
    CHECK(report_of_a_broken_message(culprit) ==
          text("rank ", culprit, ": the file is empty\nrank ", 1 - culprit,
               ": stopped waiting for a message because of rank ", culprit));
  }
}
