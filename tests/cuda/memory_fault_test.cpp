// Invalid accesses end the program with a message that names the allocation or the thread.
#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::dynamic_shared;
using cuda::launch;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif

namespace {

__global__ void write_at(float* x, int i) {
  if (threadIdx.x == 3) x[i] = 1;
}

__global__ void read_at(const float* x, int i, float* out) {
  if (threadIdx.x == 3) *out = x[i];
}

__global__ void write_dynamic_shared(int i, float* out) {
  dynamic_shared<float>()[i] = 1;
  *out = dynamic_shared<float>()[i];
}

/// Where the compiler doesn't see the size of an array, only AddressSanitizer knows it.
[[gnu::noinline]] void write_one(float* x, int i) { x[i] = 1; }

[[maybe_unused]] __global__ void write_static_shared(const int* index, float* out) {
  __shared__ float shared[16];
  write_one(shared, *index);
  __syncthreads();
  out[0] = shared[threadIdx.x];
}

__global__ void read_dynamic_shared(float* out) { *out = dynamic_shared<float>()[threadIdx.x]; }

/// About 1000 bytes of the stack for each level.
__attribute__((noinline)) int recurse(int depth) {
  volatile int numbers[250];
  for (int i = 0; i < 250; ++i) numbers[i] = depth + i;
  return depth == 0 ? numbers[7] : recurse(depth - 1) + numbers[depth % 250];
}
__global__ void use_much_stack(int* out) { *out = recurse(1000); }

template <class... Parameters, class... Arguments>
std::string last_words_of(void (*kernel)(Parameters...), Arguments... arguments) {
  return last_words([=] {
    launch(kernel, dim3(2), dim3(32), 4 * sizeof(float), nullptr, arguments...);
    cudaDeviceSynchronize();
  });
}

}  // namespace

TEST_CASE("accesses past the end of device memory end the program") {
  Machine machine;
  DeviceArray<float> x(100), out(1);
  std::string words = last_words_of(write_at, (float*)x, 128);
  CHECK_THAT(words,
             Contains("write_at") && Contains("block (0,0,0)") && Contains("thread (3,0,0)"));
  CHECK_THAT(words,
             Contains(address_sanitizer ? "heap-buffer-overflow" : "112 bytes past the end"));
  CHECK_THAT(words, Contains(address_sanitizer ? "400-byte region" : "(device 0, 400 bytes)"));
  words = last_words_of(read_at, (const float*)x, 128, (float*)out);
  CHECK_THAT(words, Contains("read_at"));
}

TEST_CASE("accesses to freed device memory end the program") {
  Machine machine;
  float* freed;
  cudaMalloc(&freed, 400);
  cudaFree(freed);
  std::string words = last_words_of(write_at, freed, 5);
  CHECK_THAT(words, Contains("write_at"));
  CHECK_THAT(words, Contains(address_sanitizer ? "heap-use-after-free" : "20 bytes into"));
  CHECK_THAT(words, Contains(address_sanitizer ? "freed by" : "which has been freed"));
}

#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("AddressSanitizer finds one element before or behind device memory and shared arrays") {
  Machine machine;
  DeviceArray<float> x(100), out(1);
  CHECK_THAT(last_words_of(write_at, (float*)x, 100), Contains("heap-buffer-overflow"));
  CHECK_THAT(last_words_of(write_at, (float*)x, -1), Contains("heap-buffer-overflow"));
  DeviceArray<int> index(std::vector<int>{16});
  CHECK_THAT(last_words_of(write_static_shared, (const int*)index, (float*)out),
             Contains("global-buffer-overflow") && Contains("write_static_shared"));
}
#else
TEST_CASE("writes just outside an allocation are found when it is freed") {
  for (int i : {-1, 100}) {
    Machine machine(faulty());
    float* x;
    cudaMalloc(&x, 400);
    launch(write_at, 1, 32, 0, nullptr, x, i);
    CHECK(cudaFree(x) == cudaErrorLaunchFailure);
    CHECK_THAT(cuda::emulator::reset(),
               Contains("just before or behind") && Contains("(device 0, 400 bytes)"));
  }
}
#endif

TEST_CASE("accesses past the end of dynamic shared memory end the program") {
  Machine machine;
  DeviceArray<float> out(1);
  CHECK_THAT(last_words_of(write_dynamic_shared, 4, (float*)out),
             Contains("write_dynamic_shared") && Contains("thread (0,0,0)"));
}

TEST_CASE("a kernel that needs more stack than it has ends the program") {
  Machine machine;
  DeviceArray<int> out(1);
  std::string words = last_words_of(use_much_stack, (int*)out);
  CHECK_THAT(words, Contains("use_much_stack"));
  CHECK_THAT(words, Contains("KiB of its stack"));
}

TEST_CASE("memory that was never written reads as NaN") {
  Machine machine;
  DeviceArray<float> fresh(3), out(1);
  CHECK(std::isnan(fresh.values()[1]));
  launch(write_dynamic_shared, 1, 1, 16, nullptr, 1, out);
  CHECK(out.values()[0] == 1);
  launch(read_dynamic_shared, 1, 2, 16, nullptr, out);  // another launch starts afresh
  CHECK(std::isnan(out.values()[0]));
}
