// What a kernel gets wrong is reported, with the kernel, the thread and the line: each test plants
// one fault.
#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::launch;
using cuda::emulator::reset;

namespace {

constexpr int line_of_kernels = __LINE__;

__global__ void return_early() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}

__global__ void mix_barriers() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void mix_warp_operations(int* out) {
  if (threadIdx.x % 2)
    out[threadIdx.x] = __ballot_sync(~0u, 1);
  else
    out[threadIdx.x] = __shfl_sync(~0u, 1, 0);
}

__global__ void leave_warp(int* out) {
  if (threadIdx.x == 40) return;
  out[threadIdx.x] = __any_sync(~0u, 1);
}

__global__ void barrier_in_one_warp(int* out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else if (threadIdx.x % 32 != 7)
    out[threadIdx.x] = __all_sync(~0u, 1);
}

__global__ void part_of_a_warp(int* out) { out[threadIdx.x] = __any_sync(~0u, 1); }

__global__ void part_of_a_mask(int* out) { out[threadIdx.x] = __any_sync(0xFFFF, 1); }

__global__ void load_misaligned(const float* in, float* out) {
  *out = cuda::load<float4>(in + 1).x;
}

__global__ void store_misaligned(float* out) { cuda::store(out + 1, make_float2(1, 2)); }

__global__ void add_one(float* x) { x[threadIdx.x] += 1; }

/// "fault_test.cpp:LINE" of the line so far below line_of_kernels
std::string at(int line) { return autograd::text("fault_test.cpp:", line_of_kernels + line); }

/// The reports of a launch that fails.
template <class... Parameters, class... Arguments>
std::string reports_of(void (*kernel)(Parameters...), int threads, Arguments&&... arguments) {
  launch(kernel, dim3(1), dim3(threads), 0, nullptr, arguments...);
  cudaError_t error = cudaDeviceSynchronize();
  PG_CHECK(error == cudaErrorLaunchFailure, "expected a failure, got ", cudaGetErrorName(error));
  return reset();
}

}  // namespace

TEST_CASE("threads that miss a barrier are reported") {
  for (Order order : all_orders) {
    Settings settings = faulty();
    settings.order = order;
    Machine machine(settings);
    DeviceArray<int> out(64);
    std::string report = reports_of(return_early, 64);
    CHECK_THAT(report, Contains("return_early()") && Contains("block (0,0,0) of (1,1,1)"));
    CHECK_THAT(report, Contains("63 at __syncthreads") && Contains(at(4)));
    CHECK_THAT(report, Contains("1 ended, of 64"));

    CHECK_THAT(reports_of(mix_barriers, 64), Contains(at(9)) && Contains(at(11)));
    CHECK_THAT(reports_of(mix_warp_operations, 32, out),
               Contains("__ballot_sync") && Contains("__shfl_sync"));
    CHECK_THAT(reports_of(leave_warp, 64, out), Contains("31 of warp 1 at __any_sync"));
    CHECK_THAT(reports_of(barrier_in_one_warp, 64, out),
               Contains("32 at __syncthreads") && Contains("31 of warp 1 at __all_sync"));
  }
}

TEST_CASE("warp operations of a part of a warp are refused") {
  Machine machine(faulty());
  DeviceArray<int> out(64);
  CHECK_THAT(reports_of(part_of_a_warp, 40, out), Contains("in a warp of 8 threads"));
  CHECK_THAT(reports_of(part_of_a_mask, 32, out), Contains("with the mask ffff"));
}

TEST_CASE("vectors at addresses that are no multiple of their size are refused") {
  Machine machine(faulty());
  DeviceArray<float> in(8), out(8);
  CHECK_THAT(reports_of(load_misaligned, 1, in, out),
             Contains("calls load") && Contains("of 16 bytes at"));
  CHECK_THAT(reports_of(store_misaligned, 1, out), Contains("calls store"));
}

TEST_CASE("a device whose kernel failed refuses all calls until the machine is reset") {
  Machine machine(faulty());
  DeviceArray<float> x(std::vector<float>{1, 2, 3});
  launch(return_early, 1, 64, 0, nullptr);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);  // it stays
  CHECK_THROWS_WITH(launch(add_one, 1, 3, 0, nullptr, x), Contains("unspecified launch failure"));
  cudaSetDevice(1);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);  // another device is as it was
  cudaSetDevice(0);
  CHECK_THAT(reset(), Contains("return_early"));
  CHECK(cudaGetLastError() == cudaSuccess);
  launch(add_one, 1, 3, 0, nullptr, x);
  CHECK(x.values() == std::vector<float>{2, 3, 4});
}

TEST_CASE("a launch that is refused names its kernel, and leaves no error behind") {
  Machine machine;
  DeviceArray<float> x(std::vector<float>(4));
  CHECK_THROWS_WITH(
      launch(add_one, 1, 1025, 0, nullptr, x),
      StartsWith("launch of ") && Contains("add_one") && Contains("cudaErrorInvalidConfiguration"));
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK_THROWS_AS(PG_CUDA(cudaSetDevice(64)), plangrad::autograd::Error);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a barrier outside a kernel ends the program") {
  CHECK_THAT(last_words([] { __syncthreads(); }), Contains("__syncthreads is called outside"));
}

TEST_CASE("CUDA's own refusals have its codes") {
  Machine machine;
  DeviceArray<float> x(std::vector<float>(4));
  auto refused = [&](dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
    cudaLaunchConfig_t config{grid, block, shared, stream, nullptr, 0};
    cudaError_t error = cudaLaunchKernelEx(&config, add_one, x);
    CHECK(cudaGetLastError() == error);
    CHECK(cudaGetLastError() == cudaSuccess);
    return error;
  };
  CHECK(refused(0, 1, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(refused(dim3(1, 65536), 1, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(refused(1, 1025, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(refused(1, dim3(1, 1, 65), 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(refused(1, 1, 49153, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 49153) ==
        cudaSuccess);
  CHECK(refused(1, 1, 49153, nullptr) == cudaSuccess);
  CHECK(refused(1, 1, 49154, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20) ==
        cudaErrorInvalidValue);
  CHECK(cudaSetDevice(8) == cudaErrorInvalidDevice);

  cudaStream_t elsewhere;
  cudaSetDevice(1);
  cudaStreamCreate(&elsewhere);
  cudaSetDevice(0);
  cudaGetLastError();
  CHECK(refused(1, 1, 0, elsewhere) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(elsewhere) == cudaSuccess);
  CHECK(cudaStreamSynchronize(elsewhere) == cudaErrorInvalidResourceHandle);
}
