// Communicators of NCCL whose calls never wait, on the emulator: who does not come, or is refused,
// is named. Not here: messages and sums (device_transport_test.cpp, nccl_sum_test.cpp). Chapter 13.
#include <thread>

#include "cuda/transport/nccl_transport.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad::tests;
using namespace plangrad::autograd;
using plangrad::cuda::cuda_device;
using plangrad::cuda::NcclComm;
using plangrad::cuda::NcclTransport;
using plangrad::parallel::ThreadsWorld;

TEST_CASE(
    "NCCL communicators: ranks make their transports together, and one that does not is named") {
  Machine machine;
  ThreadsWorld world(2);
  const DevicePtr device = cuda_device(0);
  CHECK_THROWS_WITH(NcclTransport(world.transport(0), backend_of(device), 0.05),
                    StartsWith("rank 0: waited 0.05 s for a message of rank 1"));
}

TEST_CASE("NCCL communicators: ranks that NCCL does not join are named in time") {
  Machine machine;
  NcclComm comm({3, 5}, 0.05);
  CHECK_FALSE(comm.idle());
  comm.join(comm.make_id(), 0);
  CHECK_THROWS_WITH(
      [&] {
        while (!comm.idle()) std::this_thread::yield();
      }(),
      StartsWith("ncclCommInitRankConfig of ranks 3, 5: still in progress after 0.05 s; ") &&
          Contains("NCCL_DEBUG=INFO") && Contains("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("NCCL communicators: NCCL's errors name the call and the ranks") {
  Machine machine(faulty());
  NcclComm one({0, 1}, 20), two({0, 1}, 20);
  const ncclUniqueId id = one.make_id();
  one.join(id, 0);
  CHECK_THROWS_WITH(two.join(id, 1), StartsWith("ncclCommInitRankConfig of ranks 0, 1: "
                                                "invalid usage; "));  // on one device
}
