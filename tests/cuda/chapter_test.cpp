// The faults that chapter 12 plants, and what the emulator says of each: the chapter shows these
// kernels, and the words from tutorials/figures/, which are compared with what is said here.
// Not here: all that is noticed (the other files of this folder whose names speak of faults).
#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/chapter_faults.h"
#include "tests/cuda/machine.h"
#include "tests/figures.h"

using namespace plangrad;
using namespace plangrad::tests;
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

float doubled(const Settings& settings, bool forgotten) {
  Machine machine(settings);
  return tests::doubled(forgotten);
}

}  // namespace

TEST_CASE("chapter 12: faults that end a block") {
  Machine machine(faulty());
  DeviceArray<float> x(std::vector<float>(100)), y(100);
  check_report("fault_early_return", report_of(turn_round, 128, x, 100));
  check_report("fault_misaligned", report_of(largest_of_four, 64, x, y));
}

TEST_CASE("chapter 12: faults of memory") {
#if defined(__SANITIZE_ADDRESS__)
  SKIP_TEST("AddressSanitizer has words of its own for these");
#endif
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
  for (auto [schedule, name] :
       {std::pair{QueueSchedule::eager, "eager"}, {QueueSchedule::lazy, "lazy"}})
    table += text("| ", name, " | ", doubled({.schedule = schedule}, false), " | ",
                  doubled({.schedule = schedule}, true), " |\n");
  std::string without;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Settings random{.schedule = QueueSchedule::random, .seed = seed};
    CHECK(doubled(random, false) == 2);
    without += text(seed > 1 ? ", " : "", doubled(random, true));
  }
  table += "| random, seeds 1 to 8 | 2 | " + without + " |\n";
  check_figure("fault_event", table);
}
