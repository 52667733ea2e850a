// The faults that chapter 12 plants, and what the emulator says of each: the chapter shows these
// kernels, and the words from tutorials/figures/, which are compared with what is said here.
// Not here: all that is noticed (the other files of this folder whose names speak of faults).
#include <regex>

#include "cuda/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/figures.h"

using namespace paragrad;
using namespace paragrad::tests;
using autograd::text;
using cuda::launch;
using cuda::load;

namespace {

// [snippet early return]
/// Turns the numbers of each block round.
__global__ void turn_round(float* x, int n) {
  __shared__ float shared[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  shared[threadIdx.x] = x[i];
  __syncthreads();
  x[i] = shared[127 - threadIdx.x];
}
// [end snippet]

// [snippet past the end]
/// Launched with 256 threads, for 100 numbers.
__global__ void double_all(float* x) { x[threadIdx.x] *= 2; }
// [end snippet]

// [snippet just behind]
/// Launched with 101 threads, for 100 numbers.
__global__ void count(float* x) { x[threadIdx.x] = threadIdx.x; }
// [end snippet]

// [snippet misaligned]
/// The largest of each number and its three followers.
__global__ void largest_of_four(const float* x, float* y) {
  auto four = load<float4>(x + threadIdx.x);
  y[threadIdx.x] = max(max(four.x, four.y), max(four.z, four.w));
}
// [end snippet]

// [snippet barrier]
/// Each number less its left neighbour.
__global__ void differences(const float* x, float* y, bool forgotten) {
  __shared__ float shared[128];
  int i = threadIdx.x;
  shared[i] = x[i];
  if (!forgotten) __syncthreads();
  y[i] = shared[i] - (i > 0 ? shared[i - 1] : 0);
}
// [end snippet]

__global__ void double_it(float* x) { *x *= 2; }

/// What is the same in each run and on each machine: no addresses, no folders above the sources.
std::string plain(std::string said) {
  said = std::regex_replace(said, std::regex("0x[0-9a-f]+"), "0x...");
  said = std::regex_replace(said, std::regex("allocation [0-9]+"), "allocation ...");
  return std::regex_replace(said, std::regex("[^ (]*/(tests/cuda/)"), "$1");
}

void check_report(const std::string& name, const std::string& said) {
  check_printed(name, plain(said));
}

/// What is said of a launch that makes the machine remember a fault.
template <class... Parameters, class... Arguments>
std::string report_of(void (*kernel)(Parameters...), int threads, Arguments&&... arguments) {
  launch(kernel, 1, threads, 0, nullptr, arguments...);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  return cuda::emulator::reset();
}

/// How many of 128 differences are wrong. The launch before leaves zeros in shared memory.
int wrong_differences(Order order, bool forgotten) {
  Machine machine({.order = order});
  std::vector<float> squares(128);
  for (int i = 0; i < 128; ++i) squares[i] = i * i;
  DeviceArray<float> x(squares), zeros(std::vector<float>(128)), y(128);
  launch(differences, 1, 128, 0, nullptr, zeros, y, false);
  launch(differences, 1, 128, 0, nullptr, x, y, forgotten);
  int wrong = 0, i = 0;
  for (float difference : y.values()) {
    wrong += difference != (i > 0 ? 2 * i - 1 : 0);
    ++i;
  }
  return wrong;
}

/// 1, doubled on one stream and read on another.
float doubled(const Settings& settings, bool forgotten) {
  Machine machine(settings);
  DeviceArray<float> x(std::vector<float>{1});
  cudaStream_t producer, consumer;
  cudaEvent_t is_doubled;
  float* result;
  PG_CUDA(cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking));
  PG_CUDA(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking));
  PG_CUDA(cudaEventCreate(&is_doubled));
  PG_CUDA(cudaMallocHost(&result, sizeof(float)));
  // [snippet missing event]
  launch(double_it, 1, 1, 0, producer, x);
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

}  // namespace

TEST_CASE("chapter 12: faults that end a block") {
  Machine machine(faulty());
  DeviceArray<float> x(std::vector<float>(100)), y(100);
  check_report("fault_early_return", report_of(turn_round, 128, x, 100));
  check_report("fault_misaligned", report_of(largest_of_four, 64, x, y));
}

#if !defined(__SANITIZE_ADDRESS__)  // it has words of its own for these
TEST_CASE("chapter 12: faults of memory") {
  Machine machine(faulty());
  DeviceArray<float> x(std::vector<float>(100));
  check_report("fault_past_the_end", last_words([&] {
                 launch(double_all, 1, 256, 0, nullptr, x);
                 cudaDeviceSynchronize();
               }));
  float* freed;
  PG_CUDA(cudaMalloc(&freed, 400));
  launch(count, 1, 101, 0, nullptr, freed);
  CHECK(cudaFree(freed) == cudaErrorLaunchFailure);
  check_report("fault_just_behind", cuda::emulator::reset());
}
#endif

TEST_CASE("chapter 12: a forgotten barrier") {
  std::string table =
      "| order of threads | wrong with the barrier | without |\n"
      "| --- | --- | --- |\n";
  for (auto [order, name] : {std::pair{Order::forward, "forward"},
                             {Order::reverse, "reverse"},
                             {Order::random, "random"}})
    table += text("| ", name, " | ", wrong_differences(order, false), " | ",
                  wrong_differences(order, true), " |\n");
  check_figure("fault_barrier", table);
}

TEST_CASE("chapter 12: a forgotten event") {
  std::string table =
      "| schedule | read with the event | without |\n"
      "| --- | --- | --- |\n";
  for (auto [schedule, name] : {std::pair{Schedule::eager, "eager"}, {Schedule::lazy, "lazy"}})
    table += text("| ", name, " | ", doubled({.schedule = schedule}, false), " | ",
                  doubled({.schedule = schedule}, true), " |\n");
  std::string without;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Settings random{.schedule = Schedule::random, .seed = seed};
    CHECK(doubled(random, false) == 2);
    without += text(seed > 1 ? ", " : "", doubled(random, true));
  }
  table += "| random, seeds 1 to 8 | 2 | " + without + " |\n";
  check_figure("fault_event", table);
}
