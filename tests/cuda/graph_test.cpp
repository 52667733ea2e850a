// Graphs on the emulator: what is recorded runs when it is launched, as often as it is, and what
// cannot be recorded is refused.
// Not here: the backend, which begins steps so (device_graphs_test.cpp).
#include "cuda/launch/device.h"
#include "cuda/launch/runtime.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace paragrad;
using namespace paragrad::tests;
using cuda::launch;
using cuda::Stream;

namespace {

constexpr auto relaxed = cudaStreamCaptureModeRelaxed;

__global__ void add_to(float* x, float value) { *x += value; }
__global__ void double_it(float* x) { *x *= 2; }

/// What `work` queues on the stream.
template <class Work>
cudaGraph_t record(cudaStream_t stream, Work work) {
  cudaGraph_t graph = nullptr;
  PG_CUDA(cudaStreamBeginCapture(stream, relaxed));
  work();
  PG_CUDA(cudaStreamEndCapture(stream, &graph));
  return graph;
}

}  // namespace

TEST_CASE("graphs: what is recorded runs at each launch, in its order") {
  for (QueueSchedule schedule :
       {QueueSchedule::eager, QueueSchedule::lazy, QueueSchedule::random}) {
    Machine machine({.schedule = schedule});
    DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{0});
    Stream recorder, target;
    cudaGraph_t graph = record(recorder, [&] {
      launch(double_it, 1, 1, 0, recorder, x);
      launch(add_to, 1, 1, 0, recorder, x, 3.0f);
      PG_CUDA(cudaMemcpyAsync(y, x, sizeof(float), cudaMemcpyDeviceToDevice, recorder));
    });
    cudaGraphExec_t executable;
    PG_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    PG_CUDA(cudaGraphDestroy(graph));
    CHECK(x.values()[0] == 1);  // nothing has run
    launch(add_to, 1, 1, 0, target, x, 10.0f);
    for (int i = 0; i < 2; ++i) PG_CUDA(cudaGraphLaunch(executable, target));
    PG_CUDA(cudaMemsetAsync(x, 0, sizeof(float), target));
    PG_CUDA(cudaGraphExecDestroy(executable));  // its launches are queued
    PG_CUDA(cudaStreamSynchronize(target));
    CHECK(y.values()[0] == (11 * 2 + 3) * 2 + 3);
    CHECK(x.values()[0] == 0);
  }
}

TEST_CASE("graphs: one of the same nodes brings an executable one up to date") {
  Machine machine({.schedule = QueueSchedule::lazy});
  DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{1});
  Stream stream;
  cudaGraphExec_t executable;
  cudaGraphExecUpdateResultInfo info;
  auto add = [&](float* to, float value) {
    return record(stream, [=, &stream] {
      launch(add_to, 1, 1, 0, stream, to, value);
      launch(double_it, 1, 1, 0, stream, to);
    });
  };
  cudaGraph_t first = add(x, 1), second = add(y, 4);
  cudaGraph_t longer = record(stream, [&] {
    for (int i = 0; i < 3; ++i) launch(double_it, 1, 1, 0, stream, x);
  });
  cudaGraph_t other_kind = record(stream, [&] {
    launch(double_it, 1, 1, 0, stream, x);
    PG_CUDA(cudaMemsetAsync(x, 0, sizeof(float), stream));
  });
  PG_CUDA(cudaGraphInstantiate(&executable, first, 0));
  PG_CUDA(cudaGraphLaunch(executable, stream));
  CHECK(cudaGraphExecUpdate(executable, second, &info) == cudaSuccess);
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  PG_CUDA(cudaGraphLaunch(executable, stream));  // the launch before stays what it was
  CHECK(cudaGraphExecUpdate(executable, longer, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  CHECK(cudaGraphExecUpdate(executable, other_kind, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorNodeTypeChanged);
  PG_CUDA(cudaStreamSynchronize(stream));
  CHECK(x.values()[0] == 4);
  CHECK(y.values()[0] == 10);
  for (cudaGraph_t graph : {first, second, longer, other_kind}) PG_CUDA(cudaGraphDestroy(graph));
  PG_CUDA(cudaGraphExecDestroy(executable));
}

TEST_CASE("graphs: calls that the emulator does not record are refused, and spoil what has been") {
  Machine machine;
  DeviceArray<float> x(std::vector<float>{1});
  Stream stream;
  cudaEvent_t event;
  PG_CUDA(cudaEventCreate(&event));
  float on_host = 0, *memory = nullptr;
  const auto refused = cudaErrorStreamCaptureUnsupported;
  const std::function<cudaError_t()> calls[] = {
      [&] { return cudaStreamSynchronize(stream); },
      [&] { return cudaStreamQuery(stream); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaEventRecord(event, stream); },
      [&] { return cudaStreamWaitEvent(stream, event); },
      [&] { return cudaMemcpyAsync(&on_host, x, 4, cudaMemcpyDeviceToHost, stream); },
      [&] { return cudaMemcpyAsync(x, &on_host, 4, cudaMemcpyHostToDevice, stream); },
      [&] { return cudaMallocAsync(&memory, 4, stream); },
      [&] { return cudaFreeAsync(x, stream); },
  };
  for (const auto& call : calls) {
    PG_CUDA(cudaStreamBeginCapture(stream, relaxed));
    CHECK(call() == refused);
    launch(add_to, 1, 1, 0, stream, x, 1.0f);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
  }
  PG_CUDA(cudaStreamBeginCapture(stream, relaxed));
  CHECK_THROWS_WITH(PG_CUDA(cudaStreamSynchronize(stream)),
                    "cudaStreamSynchronize(stream): operation not permitted when stream is "
                    "capturing (cudaErrorStreamCaptureUnsupported)");
  // Memory comes and goes meanwhile, and other streams are used as ever.
  PG_CUDA(cudaMalloc(&memory, 4));
  PG_CUDA(cudaFree(memory));
  CHECK(x.values()[0] == 1);
  CHECK(cudaStreamBeginCapture(stream, relaxed) == cudaErrorIllegalState);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
  CHECK(cudaStreamBeginCapture(nullptr, relaxed) == refused);
  PG_CUDA(cudaEventDestroy(event));
}
