// What devices that share a communicator do to each other: allocations that wait for peers, streams
// that share a hardware queue, operations of NCCL that come one at a time. Each fault is planted.
// Not here: that plangrad's transport has none of them (peers_engine_test.cpp). Chapter 13.
#include "cuda/emulator/runtime.h"

#include <nccl.h>

#include <array>
#include <set>

#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/cuda/nccl_ranks.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::emulator::calls_that_may_wait;

namespace {

/// Devices 0 and 1, driven by one thread: two communicators, two streams and a number on each.
struct Pair {
  using OfRanks = std::vector<ncclComm_t>;
  OfRanks first, second;
  std::array<std::array<cudaStream_t, 2>, 2> streams{};
  std::array<float*, 2> x{};

  Pair() {
    for (int rank : {0, 1}) {
      cudaSetDevice(rank);
      for (cudaStream_t& stream : streams[rank])
        PG_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      PG_CUDA(cudaMalloc(&x[rank], sizeof(float)));
    }
    for (OfRanks* comms : {&first, &second}) *comms = make_comms(2);
  }
  ~Pair() {
    for (const OfRanks& comms : {first, second})
      for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  }
  void send(const OfRanks& comms, int from, int stream) {
    ncclSend(x[from], 1, ncclFloat, 1 - from, comms[from], streams[from][stream]);
  }
  void receive(const OfRanks& comms, int to, int stream) {
    ncclRecv(x[to], 1, ncclFloat, 1 - to, comms[to], streams[to][stream]);
  }
  void sum(const OfRanks& comms, int rank, int stream) {
    ncclAllReduce(x[rank], x[rank], 1, ncclFloat, ncclSum, comms[rank], streams[rank][stream]);
  }
  cudaError_t finish(int rank) const {
    cudaSetDevice(rank);
    return cudaDeviceSynchronize();
  }
};

Settings impatient(Settings settings) {
  settings.patience = 0.05;
  settings.abort_on_fault = false;
  return settings;
}

/// What a call on device 1 returns while device 0 waits for a message to device 1.
template <class Call>
cudaError_t while_the_peer_waits(const Settings& settings, Call call) {
  Machine machine(settings);
  Pair pair;
  pair.send(pair.first, 0, 0);
  cudaSetDevice(1);
  const cudaError_t result = call(pair);
  cuda::emulator::reset();
  return result;
}

}  // namespace

TEST_CASE("peers: calls that allocate or free may wait for all peers, and then for ever") {
  void* memory = nullptr;
  const auto allocate = [&](Pair&) { return cudaMalloc(&memory, 4); };
  const auto free = [](Pair& pair) { return cudaFree(pair.x[1]); };
  const auto pin = [&](Pair&) { return cudaMallocHost(&memory, 4); };
  for (const Settings& machine : {Settings{.peer_waits = 1}, Settings{}}) {
    const auto expected = machine.peer_waits > 0 ? cudaErrorLaunchTimeout : cudaSuccess;
    const Settings settings = impatient(machine);
    CHECK(while_the_peer_waits(settings, allocate) == expected);
    CHECK(while_the_peer_waits(settings, free) == expected);
    CHECK(while_the_peer_waits(settings, pin) == expected);
    CHECK(while_the_peer_waits(settings, [&](Pair& pair) {
            void* own = nullptr;
            PG_CUDA(cudaMallocAsync(&own, 4, pair.streams[1][0]));
            return cudaFreeAsync(own, pair.streams[1][0]);
          }) == cudaSuccess);
  }
}

TEST_CASE("peers: the dice say which calls wait, and devices that never met don't") {
  std::set<cudaError_t> results;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    void* memory = nullptr;
    const Settings settings = impatient({.seed = seed, .peer_waits = 0.5});
    results.insert(while_the_peer_waits(settings, [&](Pair&) { return cudaMalloc(&memory, 4); }));
    const auto elsewhere = [&](Pair&) {
      cudaSetDevice(2);
      const cudaError_t result = cudaMalloc(&memory, 4);
      return calls_that_may_wait(2) == 0 ? result : cudaErrorInvalidValue;
    };
    CHECK(while_the_peer_waits(settings, elsewhere) == cudaSuccess);
  }
  CHECK(results == std::set{cudaSuccess, cudaErrorLaunchTimeout});
}

TEST_CASE("peers: while a thread waits for them, no other can queue the message that would help") {
  Machine machine(impatient({.peer_waits = 1}));
  Pair pair;
  pair.send(pair.first, 0, 0);
  const int before = calls_that_may_wait(1);  // those that made the communicators
  std::thread helper([&] {
    while (calls_that_may_wait(1) == before) std::this_thread::yield();
    cudaSetDevice(1);
    pair.receive(pair.first, 1, 0);
  });
  cudaSetDevice(1);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == cudaErrorLaunchTimeout);
  helper.join();
  CHECK(pair.finish(1) == cudaSuccess);  // once it has given up
  CHECK_THAT(cuda::emulator::reset(), Contains("deadlock"));
}

TEST_CASE("peers: streams that share a hardware queue wait for each other") {
  for (int queues : {1, 2}) {
    Machine machine(impatient({.queues = queues}));
    Pair pair;
    pair.receive(pair.first, 0, 0);
    PG_CUDA(cudaMemsetAsync(pair.x[0], 0, 4, (cudaSetDevice(0), pair.streams[0][0])));
    pair.send(pair.second, 0, 1);  // in one queue with the memset, it stands behind it
    pair.receive(pair.second, 1, 0);
    pair.send(pair.first, 1, 0);
    CHECK(pair.finish(0) == (queues == 1 ? cudaErrorLaunchTimeout : cudaSuccess));
    CHECK_THAT(cuda::emulator::reset(),
               Contains(queues == 1 ? "behind memset of another stream" : ""));
  }
}

TEST_CASE("peers: operations in different orders need room for all at a time") {
  for (bool one : {true, false}) {
    Machine machine(impatient({.schedule = QueueSchedule::eager, .one_nccl_operation = one}));
    Pair pair;
    pair.sum(pair.first, 0, 0);
    pair.sum(pair.second, 1, 1);
    pair.sum(pair.second, 0, 1);
    pair.sum(pair.first, 1, 0);
    CHECK(pair.finish(0) == (one ? cudaErrorLaunchTimeout : cudaSuccess));
    cuda::emulator::reset();
  }
}

TEST_CASE("peers: memory that is freed on one stream and used on another is found") {
  CHECK_THAT(last_words([] {
               Machine machine({.schedule = QueueSchedule::lazy});
               cudaStream_t own, other;
               for (cudaStream_t* stream : {&own, &other})
                 PG_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
               void* x = nullptr;
               PG_CUDA(cudaMallocAsync(&x, 4, own));
               PG_CUDA(cudaMemsetAsync(x, 0, 4, other));
               PG_CUDA(cudaFreeAsync(x, own));  // and own waits for no event of the other
               PG_CUDA(cudaStreamSynchronize(own));
               PG_CUDA(cudaStreamSynchronize(other));
             }),
             Contains("which has been freed") || Contains("heap-use-after-free"));
}
