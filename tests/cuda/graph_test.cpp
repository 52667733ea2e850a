// Graphs on the emulator: what is recorded runs when it is launched, as often as it is, what
// cannot be recorded is refused, and programs that trust a GPU too much are found out.
// Not here: the backend, which begins steps so (device_graphs_test.cpp).
#include "cuda/backend/map.h"
#include "cuda/launch/device.h"
#include "cuda/launch/runtime.h"
#include "tests/catch.h"
#include "tests/cuda/lt_product.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;
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

TEST_CASE("graphs: a product is one node or two, so that no program may count on their number") {
  Machine machine;
  DeviceArray<float> x(std::vector<float>(64, 1)), y(64), workspace(1024);
  Stream stream;
  auto product = [&](int k) {
    LtProduct product({.m = 4, .n = 4, .k = k});
    product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace.bytes()});
    REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
    return record(stream, [&] { product.queue(x, x, y, stream, 0, workspace, workspace.bytes()); });
  };
  auto nodes = [](cudaGraph_t graph) {
    std::size_t count = 0;
    PG_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
    return count;
  };
  cudaGraph_t square = product(4), shorter = product(3), longer = product(16);
  CHECK(nodes(square) == 1);
  CHECK(nodes(longer) == 2);
  // The planted fault: the first product's graph is launched for the second one.
  cudaGraphExec_t executable;
  cudaGraphExecUpdateResultInfo info;
  PG_CUDA(cudaGraphInstantiate(&executable, square, 0));
  CHECK(cudaGraphExecUpdate(executable, shorter, &info) == cudaSuccess);
  CHECK(cudaGraphExecUpdate(executable, longer, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  PG_CUDA(cudaGraphLaunch(executable, stream));
  PG_CUDA(cudaStreamSynchronize(stream));
  CHECK(y.values()[0] == 3);  // not 16
  for (cudaGraph_t graph : {square, shorter, longer}) PG_CUDA(cudaGraphDestroy(graph));
  PG_CUDA(cudaGraphExecDestroy(executable));
}

TEST_CASE("graphs: updates are refused by the seed's dice, so that no program may count on them") {
  auto run = [](double refused, std::uint64_t seed) {
    Machine machine({.seed = seed, .refused_updates = refused});
    DeviceArray<float> x(std::vector<float>{0});
    Stream stream;
    cudaGraphExec_t executable = nullptr;
    std::string results;
    for (int i = 0; i < 20; ++i) {
      cudaGraph_t graph =
          record(stream, [&] { launch(add_to, 1, 1, 0, stream, x, std::ldexp(1.0f, i)); });
      if (!executable) PG_CUDA(cudaGraphInstantiate(&executable, graph, 0));
      cudaGraphExecUpdateResultInfo info;
      const cudaError_t error = cudaGraphExecUpdate(executable, graph, &info);  // not looked at
      CHECK((error == cudaSuccess) == (info.result == cudaGraphExecUpdateSuccess));
      results += error == cudaSuccess ? '.' : 'x';
      PG_CUDA(cudaGraphLaunch(executable, stream));
      PG_CUDA(cudaGraphDestroy(graph));
    }
    PG_CUDA(cudaStreamSynchronize(stream));
    PG_CUDA(cudaGraphExecDestroy(executable));
    return std::pair(results, x.values()[0]);
  };
  const float all = 0xFFFFF;  // each of the 20 has added its own power of two
  CHECK(run(0, 1) == std::pair(std::string(20, '.'), all));
  const auto [results, sum] = run(0.3, 1);
  CHECK_THAT(results, Contains(".") && Contains("x"));
  CHECK(sum != all);
  CHECK(run(0.3, 1) == std::pair(results, sum));
  CHECK(run(0.3, 2).first != results);
}

namespace {

/// Leaves bytes where the stack of the next calls will be.
[[gnu::noinline]] void leave_bytes(unsigned char value) {
  volatile unsigned char bytes[16384];
  for (volatile unsigned char& byte : bytes) byte = value;
}

[[gnu::noinline]] std::string bytes_of_table() {
  std::string bytes;
  cuda::for_tables(
      std::vector<std::int64_t>{3, 5}, [](std::int64_t count) { return unsigned(count); },
      [&](const auto& table) {
        bytes.assign(reinterpret_cast<const char*>(&table), sizeof table);
      });
  return bytes;
}

}  // namespace

// Graphs compare arguments by their bytes.
TEST_CASE("graphs: tables of the same segments are equal to the last byte") {
  leave_bytes(0);
  const std::string table = bytes_of_table();
  leave_bytes(0xff);
  CHECK(bytes_of_table() == table);
}
