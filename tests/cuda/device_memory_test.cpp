// Memory of devices: limits, frees, and the copies that CUDA refuses.
#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;

TEST_CASE("a device holds no more than its settings allow") {
  Machine machine({.devices = 2, .device_bytes = 10'000});
  cudaDeviceProp properties;
  PG_CUDA(cudaGetDeviceProperties(&properties, 1));
  CHECK(properties.totalGlobalMem == 10'000);
  char *first, *second, *elsewhere;
  CHECK(cudaMalloc(&first, 6'000) == cudaSuccess);
  CHECK(cudaMalloc(&second, 4'001) == cudaErrorMemoryAllocation);
  CHECK(second == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);  // it does not stay
  cudaSetDevice(1);
  CHECK(cudaMalloc(&elsewhere, 10'000) == cudaSuccess);
  cudaSetDevice(0);
  CHECK(cudaFree(first) == cudaSuccess);
  CHECK(cudaMalloc(&second, 10'000) == cudaSuccess);
  CHECK(cudaFree(second) == cudaSuccess);
  CHECK(cudaFree(elsewhere) == cudaSuccess);
}

TEST_CASE("a stream's frees make room for its allocations") {
  Machine machine({.device_bytes = 10'000, .schedule = QueueSchedule::lazy});
  float *first, *second;
  PG_CUDA(cudaMallocAsync(&first, 6'000, nullptr));
  PG_CUDA(cudaFreeAsync(first, nullptr));
  PG_CUDA(cudaMallocAsync(&second, 6'000, nullptr));
  CHECK(cudaMallocAsync(&first, 6'000, nullptr) == cudaErrorMemoryAllocation);
  PG_CUDA(cudaFreeAsync(second, nullptr));
  PG_CUDA(cudaDeviceSynchronize());
  CHECK(cudaMalloc(&first, 10'000) == cudaSuccess);
  CHECK(cudaFree(first) == cudaSuccess);
}

TEST_CASE("only what was allocated, by the same kind of call, can be freed") {
  Machine machine(faulty());
  float *x, *pinned, ordinary;
  PG_CUDA(cudaMalloc(&x, 400));
  PG_CUDA(cudaMallocHost(&pinned, 400));
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaFree(&ordinary) == cudaErrorInvalidValue);
  CHECK(cudaFree(x + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(x) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaFree(x) == cudaSuccess);
  CHECK(cudaFree(x) == cudaErrorInvalidValue);

  PG_CUDA(cudaMalloc(&x, 400));
  PG_CUDA(cudaFreeAsync(x, nullptr));
  PG_CUDA(cudaFreeAsync(x, nullptr));  // still queued, so this shows only later
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK_THAT(cuda::emulator::reset(), Contains("is freed twice"));
}

TEST_CASE("copies stay inside of allocations and go where they say") {
  Machine machine({.devices = 2});
  DeviceArray<float> x(std::vector<float>{1, 2, 3}), y(3);
  cudaSetDevice(1);
  DeviceArray<float> elsewhere(3);
  cudaSetDevice(0);
  float host[4];
  CHECK(cudaMemcpy(host, x, 16, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x + 1, host, 12, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, x, 12, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x, host, 12, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host, 0, 12) == cudaErrorInvalidValue);
  CHECK(cudaMemset(x, 0, 13) == cudaErrorInvalidValue);

  PG_CUDA(cudaMemcpy(y, x, 12, cudaMemcpyDeviceToDevice));
  PG_CUDA(cudaMemcpy(elsewhere, y, 12, cudaMemcpyDefault));
  PG_CUDA(cudaMemcpy(host, elsewhere, 12, cudaMemcpyDefault));
  CHECK(host[2] == 3);
}

TEST_CASE("errors of CUDA are thrown with the call's name") {
  Machine machine({.device_bytes = 100});
  float *x;
  CHECK_THROWS_WITH(PG_CUDA(cudaMalloc(&x, 400)),
                    "cudaMalloc(&x, 400): out of memory (cudaErrorMemoryAllocation)");
}

TEST_CASE("settings that mean nothing, or come too late, are refused") {
  using cuda::emulator::configure;
  CHECK_THROWS_WITH(configure({.devices = 0}), Contains("expected 1 to 64 devices, got 0"));
  CHECK_THROWS_WITH(configure({.patience = 0}), Contains("patience must be positive"));
  Machine machine({.schedule = QueueSchedule::lazy});
  DeviceArray<float> x(1);
  PG_CUDA(cudaMemset(x, 0, 4));
  CHECK_THROWS_WITH(configure({}), Contains("operations are queued"));
}

TEST_CASE("attributes agree with properties") {
  Machine machine;
  int count = 0, value = 0;
  PG_CUDA(cudaGetDeviceCount(&count));
  CHECK(count == 8);
  PG_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 7));
  CHECK(value == 227 * 1024);
  PG_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
  CHECK(value == 32);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 8) == cudaErrorInvalidDevice);
}
