// Faults between operations, and between them and the host, which the checked build reports
// whatever the schedule was: each test plants one, and its twin without the fault is silent.
// Not here: faults within a launch (kernel_fault_test.cpp). Chapter 12.
#include <cstring>

#include "cuda/launch/device.h"
#include "cuda/launch/runtime.h"
#include "tests/catch.h"
#include "tests/cuda/lt_product.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::Event;
using cuda::launch;
using cuda::Stream;

namespace {

__global__ void double_it(float* x) { *x *= 2; }
__global__ void add(const float* a, const float* b, float* sum) { *sum = *a + *b; }
__global__ void set(float* x, float value) { *x = value; }

constexpr auto to_device = cudaMemcpyHostToDevice, to_host = cudaMemcpyDeviceToHost;

/// A number of pinned memory, used by the host as programs do.
struct Pinned {
  float* value;
  Pinned() { PG_CUDA(cudaMallocHost(&value, sizeof(float))); }
  ~Pinned() { cudaFreeHost(value); }
};

/// Runs `body(forget)` in every schedule: with the fault it must be reported in these words,
/// without it nothing may be.
template <class Body>
void check_fault(const std::string& words, Body body) {
  for (const Settings& settings : every_schedule(4, faulty()))
    for (bool forget : {false, true}) {
      CAPTURE(forget, int(settings.schedule), settings.seed);
      Machine machine(settings);
      try {
        body(forget);
        PG_CUDA(cudaDeviceSynchronize());
      } catch (const autograd::Error&) {  // of a device that has failed
      }
      const std::string said = cuda::emulator::reset();
      if (forget)
        CHECK_THAT(said, Contains(words));
      else
        CHECK(said == "");
    }
}

/// Two operations, or one and the host, that nothing orders.
template <class Body>
void check_race(Body body) {
  check_fault("; no event and no wait of the host orders the two", body);
}

}  // namespace

TEST_CASE("checked: streams that use the same memory need an event") {
  check_race([](bool forget) {
    DeviceArray<float> x(std::vector<float>{1}), sum(1);
    Stream left, right;
    Event made;
    launch(double_it, 1, 1, 0, left, x);
    made.record(left);
    if (!forget) made.hold(right);
    launch(add, 1, 1, 0, right, x, x, sum);
    PG_CUDA(cudaDeviceSynchronize());
  });
}

TEST_CASE("checked: what a stream still reads must not be written by another") {
  check_race([](bool forget) {
    DeviceArray<float> x(std::vector<float>{1}), sum(1);
    Stream left, right;
    Event used;
    launch(add, 1, 1, 0, left, x, x, sum);
    used.record(left);
    if (!forget) used.hold(right);
    PG_CUDA(cudaMemsetAsync(x, 0, sizeof(float), right));
    PG_CUDA(cudaDeviceSynchronize());
  });
}

TEST_CASE("checked: the default stream does not wait for streams that do not wait for it") {
  check_race([](bool forget) {
    DeviceArray<float> x(std::vector<float>{1});
    Stream stream;
    PG_CUDA(cudaMemset(x, 0, sizeof(float)));
    if (forget) {
      launch(double_it, 1, 1, 0, stream, x);
    } else {
      cudaStream_t blocking;
      PG_CUDA(cudaStreamCreate(&blocking));
      launch(double_it, 1, 1, 0, blocking, x);
      PG_CUDA(cudaStreamDestroy(blocking));
    }
    PG_CUDA(cudaDeviceSynchronize());
  });
}

TEST_CASE("checked: an event that is asked or waited for orders the host") {
  check_race([](bool forget) {
    DeviceArray<float> x(std::vector<float>{1});
    Stream stream;
    Event copied;
    Pinned result;
    PG_CUDA(cudaMemcpyAsync(result.value, x, sizeof(float), to_host, stream));
    copied.record(stream);
    if (!forget)
      while (!copied.reached()) {
      }
    float read = 0;
    std::memcpy(&read, result.value, sizeof read);
    PG_CUDA(cudaDeviceSynchronize());
    if (!forget) CHECK(read == 1);
  });
}

TEST_CASE("checked: a pinned buffer must not be used again before its copy is done") {
  check_race([](bool forget) {
    DeviceArray<float> x(1);
    Stream stream;
    Pinned source;
    *source.value = 1;
    PG_CUDA(cudaMemcpyAsync(x, source.value, sizeof(float), to_device, stream));
    if (!forget) PG_CUDA(cudaStreamSynchronize(stream));
    *source.value = 2;
    PG_CUDA(cudaDeviceSynchronize());
  });
}

TEST_CASE("checked: memory is freed behind those who use it") {
  check_fault("free", [](bool forget) {
    float* x = nullptr;
    Stream left, right;
    PG_CUDA(cudaMallocAsync(&x, sizeof(float), left));
    launch(set, 1, 1, 0, left, x, 1.0f);
    PG_CUDA(cudaFreeAsync(x, forget ? right : left));
    PG_CUDA(cudaDeviceSynchronize());
  });
}

TEST_CASE("checked: freed memory is nobody's") {
  check_fault("which has been freed", [](bool forget) {
    float* x = nullptr;
    PG_CUDA(cudaMalloc(&x, sizeof(float)));
    if (forget) PG_CUDA(cudaFree(x));
    launch(set, 1, 1, 0, nullptr, x, 1.0f);
    if (!forget) PG_CUDA(cudaFree(x));
  });
}

TEST_CASE("checked: a host function belongs to its stream") {
  check_race([](bool forget) {
    DeviceArray<float> x(std::vector<float>{1});
    Stream stream, other;
    Pinned result;
    PG_CUDA(cudaMemcpyAsync(result.value, x, sizeof(float), to_host, stream));
    auto set_to_one = [](void* number) { *static_cast<float*>(number) = 1; };
    PG_CUDA(cudaLaunchHostFunc(forget ? other : stream, set_to_one, result.value));
    PG_CUDA(cudaDeviceSynchronize());
  });
}

TEST_CASE("checked: products of matrices use memory as kernels do") {
  check_race([](bool forget) {
    DeviceArray<float> x(std::vector<float>{2}), product(1);
    Stream left, right;
    Event doubled;
    LtProduct square({.m = 1, .n = 1, .k = 1});
    square.choose();
    launch(double_it, 1, 1, 0, left, x);
    doubled.record(left);
    if (!forget) doubled.hold(right);
    square.queue(x, x, product, right);
    PG_CUDA(cudaDeviceSynchronize());
    if (!forget) CHECK(product.values()[0] == 16);
  });
}

TEST_CASE("checked: device memory is written before it is read") {
  check_fault("which nobody has written", [](bool forget) {
    DeviceArray<float> x(1);
    if (!forget) PG_CUDA(cudaMemset(x, 0, sizeof(float)));
    launch(double_it, 1, 1, 0, nullptr, x);
  });
}

TEST_CASE("checked: the host has no hands in device memory") {
  check_fault("the host: writes", [](bool forget) {
    DeviceArray<float> x(1);
    const float one = 1;
    if (forget)
      *static_cast<float*>(x) = one;
    else
      PG_CUDA(cudaMemcpy(x, &one, sizeof one, to_device));
  });
}

TEST_CASE("checked: kernels have no hands in the host's memory") {
  check_fault("which is not memory of a device", [](bool forget) {
    DeviceArray<float> x(std::vector<float>{1});
    auto own = std::make_unique<float>(1.0f);
    launch(double_it, 1, 1, 0, nullptr, forget ? own.get() : static_cast<float*>(x));
    PG_CUDA(cudaDeviceSynchronize());
  });
}
