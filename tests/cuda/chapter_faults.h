// Two faults of chapter 12 that the plain emulator doesn't report: a forgotten barrier, and a
// forgotten event. Two programs show what they do: tests_cuda, and tests_cuda_checked; and how the
// chapter shows a report.
// Not here: the other faults (chapter_test.cpp).
#pragma once

#include <regex>

#include "cuda/launch/device.h"
#include "tests/cuda/machine.h"
#include "tests/figures.h"

namespace plangrad::tests {

/// Does check_printed (tests/figures.h) of a report, without what differs from run to run and from
/// machine to machine: addresses, and folders above the sources.
inline void check_report(const std::string& name, const std::string& said) {
  std::string plain = std::regex_replace(said, std::regex("0x[0-9a-f]+"), "0x...");
  plain = std::regex_replace(plain, std::regex("allocation [0-9]+"), "allocation ...");
  plain = std::regex_replace(plain, std::regex("stream [0-9]+"), "stream ...");
  check_printed(name, std::regex_replace(plain, std::regex("[^ (]*/(tests/cuda/)"), "$1"));
}

// [snippet barrier]
/// Each number less its left neighbour.
__global__ inline void differences(const float* x, float* y, bool forgotten) {
  __shared__ float shared[128];
  int i = threadIdx.x;
  shared[i] = x[i];
  if (!forgotten) __syncthreads();
  y[i] = shared[i] - (i > 0 ? shared[i - 1] : 0);
}
// [end snippet]

__global__ inline void double_it(float* x) { *x *= 2; }

/// 1, doubled on one stream and read on another.
inline float doubled(bool forgotten) {
  DeviceArray<float> x(std::vector<float>{1});
  cudaStream_t producer, consumer;
  cudaEvent_t is_doubled;
  float* result;
  PG_CUDA(cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking));
  PG_CUDA(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking));
  PG_CUDA(cudaEventCreate(&is_doubled));
  PG_CUDA(cudaMallocHost(&result, sizeof(float)));
  // [snippet missing event]
  cuda::launch(double_it, 1, 1, 0, producer, x);
  if (!forgotten) {
    PG_CUDA(cudaEventRecord(is_doubled, producer));
    PG_CUDA(cudaStreamWaitEvent(consumer, is_doubled));
  }
  PG_CUDA(cudaMemcpyAsync(result, x, sizeof(float), cudaMemcpyDeviceToHost, consumer));
  PG_CUDA(cudaStreamSynchronize(consumer));
  // [end snippet]
  const float read = *result;
  PG_CUDA(cudaDeviceSynchronize());
  PG_CUDA(cudaFreeHost(result));
  PG_CUDA(cudaEventDestroy(is_doubled));
  PG_CUDA(cudaStreamDestroy(producer));
  PG_CUDA(cudaStreamDestroy(consumer));
  return read;
}

}  // namespace plangrad::tests
