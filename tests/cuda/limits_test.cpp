// Devices that are full, too old, or have failed, and memory that is freed: what takes the emulator
// to see. Not here: what GPUs are asked as well (backend_memory_test.cpp, backend_errors_test.cpp).
#include "autograd/backend.h"
#include "cuda/backend/cuda_backend.h"
#include "cuda/backend/kernel_types.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

TEST_CASE("backend memory: kept blocks are given back before memory is called full") {
  Machine machine({.devices = 2, .device_bytes = 1 << 20});
  for (bool keeps_blocks : {true, false}) {
    DevicePtr device = cuda_device(1, {.keeps_blocks = keeps_blocks});
    { Tensor x = empty({700'000}, DType::u8, device); }
    Tensor y = empty({900'000}, DType::u8, device);
    CHECK_THROWS_WITH(
        empty({100'000}, DType::f32, device),
        StartsWith("cudaMallocAsync: out of memory: CUDA device 1 has no 400000 bytes left beside "
                   "the 9"));
    CHECK(device->meter().live() == 900'000);
    Tensor z = empty({1000}, DType::u8, device);  // the device still works
    CHECK(backend_of(device).allocator().bytes_kept() == 0);
  }
}

TEST_CASE("device graphs: memory is called full only once all that was freed is given back") {
  constexpr std::int64_t mebi = 1 << 20;
  Machine machine({.device_bytes = 4 * mebi});
  for (bool keeps_blocks : {true, false}) {
    const DevicePtr device = cuda_device(0, {.keeps_blocks = keeps_blocks, .graphs = true});
    Tensor y = zeros({1}, DType::f32, device), z;
    device->backend().as_one_launch([&] {
      {
        const Tensor large = full({3 * mebi / 4}, 1, DType::f32, device);
        y.backend().copy(large.window(0, {1}), y);
      }
      z = full({5 * mebi / 8}, 2, DType::f32, device);
      CHECK_THROWS_WITH(full({3 * mebi}, 2, DType::f32, device), Contains("out of memory"));
    });
    CHECK(item(y) == 1);
    CHECK(to_host(z) == Numbers(z.numel(), 2));
  }
}

TEST_CASE("backend memory: use after free is found without the cache") {
  CHECK_THAT(last_words([] {
               DevicePtr device = strict_device();
               Tensor x = from_host(std::vector<float>{1, 2}, {2}, device);
               const std::byte* address = x.raw();
               x.storage()->vacate();
               float value = 0;
               backend_of(device).read(address, &value, sizeof(value));
             }),
             Contains("which has been freed") || Contains("heap-use-after-free"));
}

TEST_CASE("backend memory: devices that are too old are refused") {
  {
    Machine machine({.compute_capability = 75});
    CHECK_THROWS_WITH(cuda_device(1),
                      "cuda: device 1, plangrad's CUDA emulator, has compute capability 7.5; "
                      "expected 8.0 or later");
  }
  Machine machine({.compute_capability = 80});
  CHECK_NOTHROW(cuda_device(1));
}

namespace {

/// Not all threads reach the barrier.
__global__ void wait_by_half(float* x) {
  if (threadIdx.x < 16) __syncthreads();
  x[threadIdx.x] = 1;
}

}  // namespace

TEST_CASE("backend errors: a kernel that fails is the error of a later call, and of all others") {
  Machine machine(faulty());
  const DevicePtr device = cuda_device(2), other = cuda_device(3);
  const Tensor x = zeros({32}, DType::f32, device);
  backend_of(device).run(wait_by_half, {1, 32}, x.data<float>());
  CHECK_THROWS_WITH(to_host(x),
                    "cudaEventSynchronize(before->done): unspecified launch failure "
                    "(cudaErrorLaunchFailure)");
  CHECK_THROWS_WITH(zeros({1}, DType::f32, device), Contains("unspecified launch failure"));
  CHECK(item(zeros({1}, DType::f32, other)) == 0);
  CHECK_THAT(plangrad::cuda::emulator::reset(), Contains("wait_by_half"));
}
