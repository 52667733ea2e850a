// What chapter 13 shows of one device and of two: what is queued, what is kept, and what must be
// ordered. Its tables and reports are compared with tutorials/figures/.
// Not here: the transports themselves (device_transport_test.cpp, nccl_sum_test.cpp).
#include <nccl.h>

#include "autograd/ops.h"
#include "cuda/backend/cuda_backend.h"
#include "cuda/launch/device.h"
#include "nn/models/gpt.h"
#include "nn/optimizers/optimizer.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/cuda/nccl_ranks.h"
#include "tests/figures.h"

using namespace plangrad;
using namespace plangrad::nn;
using namespace plangrad::tests;
using plangrad::cuda::cuda_device;
using plangrad::cuda::launch;

namespace {

__global__ void double_it(float* x) { *x *= 2; }

/// A small GPT in training on one device.
struct Trainee {
  GptConfig config{2, 2, 32, 16, 67, 0, true};
  DevicePtr device = cuda_device();
  Stage stage{gpt(config), 0, config.layers + 2};
  Tensor weights = empty({stage.parameters().numel()}, DType::f32, device);
  Tensor sums = empty(weights.shape(), DType::f32, device);
  Tensor inputs = from_host(std::vector<std::int32_t>(32, 5), {2, 16}, device);
  Tensor targets = from_host(std::vector<std::int32_t>(32, 6), {2, 16}, device);
  std::unique_ptr<Optimizer> optimizer = make_adamw(stage.parameters(), weights);

  Trainee() {
    initialize(stage.parameters(), weights, 5);
    stage.bind(weights, add_to_flat(sums));
  }
  /// Forward and backward: nothing that the host would have to know.
  Tensor compute() {
    sums.backend().fill(0, sums);
    const Tensor loss = stage.forward(inputs, {.training = true, .seed = 3}, targets);
    backward(loss);
    return loss;
  }
};

}  // namespace

TEST_CASE("chapter 13: the host queues a step and waits for one number") {
  Machine machine({.schedule = QueueSchedule::lazy});
  Trainee trainee;
  cudaStream_t stream = backend_of(trainee.device).stream();
  backend_of(trainee.device).synchronize();
  // [snippet queued]
  Tensor loss = trainee.compute();  // all of forward and backward
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  double value = item(loss);  // here the host waits
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  // [end snippet]
  CHECK(value > 0);
}

TEST_CASE("chapter 13: after the first step memory is what was kept") {
  Machine machine;
  Trainee trainee;
  const auto& allocator = backend_of(trainee.device).allocator();
  std::string table =
      "| after | bytes in use | bytes kept for the next | taken from CUDA by the step |\n"
      "| --- | --- | --- | --- |\n";
  std::int64_t before = 0;
  for (int step = 0; step <= 3; ++step) {
    if (step > 0) {
      trainee.compute();
      trainee.optimizer->step({.learning_rate = 0.1, .step = step}, trainee.weights, trainee.sums);
    }
    const std::int64_t used = allocator.bytes_in_use(), kept = allocator.bytes_kept();
    table += text("| ", step == 0 ? "the beginning" : text("step ", step), " | ", used, " | ", kept,
                  " | ", step == 0 ? "" : text(used + kept - before), " |\n");
    before = used + kept;
  }
  check_figure("device_memory", table);
}

namespace {

/// Two devices, each with streams and a buffer, and a communicator of both.
struct Pair {
  std::array<cudaStream_t, 2> computing, sending, receiving;
  std::array<float*, 2> out, in;

  Pair() {
    for (int rank : {0, 1}) {
      cudaSetDevice(rank);
      for (auto* stream : {&computing, &sending, &receiving})
        PG_CUDA(cudaStreamCreateWithFlags(&(*stream)[rank], cudaStreamNonBlocking));
      for (auto* buffer : {&out, &in}) PG_CUDA(cudaMalloc(&(*buffer)[rank], sizeof(float)));
    }
  }
  ~Pair() {
    for (int rank : {0, 1}) {
      for (float* buffer : {out[rank], in[rank]}) cudaFree(buffer);
      for (const auto& streams : {computing, sending, receiving}) cudaStreamDestroy(streams[rank]);
    }
  }
};

void write(float value, float* x, cudaStream_t stream) {
  PG_CUDA(cudaMemcpyAsync(x, &value, sizeof value, cudaMemcpyHostToDevice, stream));
  PG_CUDA(cudaStreamSynchronize(stream));
}

float read(const float* x, cudaStream_t stream) {
  float value = 0;
  PG_CUDA(cudaMemcpyAsync(&value, x, sizeof value, cudaMemcpyDeviceToHost, stream));
  PG_CUDA(cudaStreamSynchronize(stream));
  return value;
}

/// 1, doubled on device 0 and sent to device 1.
float arrived(const Settings& settings, bool forgotten) {
  Machine machine(settings);
  const Pair pair;
  const auto comms = make_comms(2);
  cudaSetDevice(0);
  write(1, pair.out[0], pair.computing[0]);
  cudaEvent_t ready;
  PG_CUDA(cudaEventCreate(&ready));
  auto [computing, sending] = std::pair(pair.computing[0], pair.sending[0]);
  // [snippet message event]
  launch(double_it, 1, 1, 0, computing, pair.out[0]);
  if (!forgotten) {
    PG_CUDA(cudaEventRecord(ready, computing));
    PG_CUDA(cudaStreamWaitEvent(sending, ready));
  }
  ncclSend(pair.out[0], 1, ncclFloat, 1, comms[0], sending);
  // [end snippet]
  cudaSetDevice(1);
  ncclRecv(pair.in[1], 1, ncclFloat, 0, comms[1], pair.receiving[1]);
  const float result = read(pair.in[1], pair.receiving[1]);
  cudaSetDevice(0);
  PG_CUDA(cudaDeviceSynchronize());
  PG_CUDA(cudaEventDestroy(ready));
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  return result;
}

/// Rank r sends r + 1 to the other rank, and receives.
void exchange(const Pair& pair, const std::vector<ncclComm_t>& there,
              const std::vector<ncclComm_t>& back) {
  for (int rank : {0, 1}) {
    cudaSetDevice(rank);
    write(static_cast<float>(rank + 1), pair.out[rank], pair.computing[rank]);
    // [snippet exchange]
    ncclComm_t to = rank == 0 ? there[0] : back[1], from = rank == 0 ? back[0] : there[1];
    ncclSend(pair.out[rank], 1, ncclFloat, 1 - rank, to, pair.sending[rank]);
    ncclRecv(pair.in[rank], 1, ncclFloat, 1 - rank, from, pair.receiving[rank]);
    // [end snippet]
  }
}

}  // namespace

TEST_CASE("chapter 13: a message needs its event") {
  std::string table =
      "| schedule | arrives with the event | without |\n"
      "| --- | --- | --- |\n";
  for (auto [schedule, name] :
       {std::pair{QueueSchedule::eager, "eager"}, {QueueSchedule::lazy, "lazy"}})
    table += text("| ", name, " | ", arrived({.schedule = schedule}, false), " | ",
                  arrived({.schedule = schedule}, true), " |\n");
  check_figure("message_event", table);
}

TEST_CASE("chapter 13: two messages in a communicator of two wait for each other") {
  Machine machine(faulty());
  {
    const Pair pair;
    const auto shared = make_comms(2);
    exchange(pair, shared, shared);
    cudaSetDevice(0);
    CHECK(cudaStreamSynchronize(pair.receiving[0]) == cudaErrorLaunchTimeout);
    check_printed("message_deadlock", cuda::emulator::reset());
    for (ncclComm_t comm : shared) ncclCommDestroy(comm);
  }
  const Pair pair;
  const auto there = make_comms(2), back = make_comms(2);
  exchange(pair, there, back);
  for (int rank : {0, 1}) {
    cudaSetDevice(rank);
    CHECK(read(pair.in[rank], pair.receiving[rank]) == 2 - rank);
    PG_CUDA(cudaStreamSynchronize(pair.sending[rank]));
    for (ncclComm_t comm : {there[rank], back[rank]}) ncclCommDestroy(comm);
  }
}
