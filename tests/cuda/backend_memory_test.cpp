// The CUDA backend's memory: copies, the cache of blocks, and what is refused.
// Not here: memory that is full or freed (limits_test.cpp), kernels.
#include <numeric>

#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/in_threads.h"
#include "tests/numbers.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

namespace {

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

}  // namespace

TEST_CASE("backend memory: values come back from the device") {
  for (QueueSchedule schedule :
       {QueueSchedule::eager, QueueSchedule::lazy, QueueSchedule::random}) {
    Machine machine({.schedule = schedule});
    DevicePtr device = device_of(1);
    // One, and past the ends of staging slots of 2^18 floats, in more than all slots together.
    for (std::int64_t count : {0, 1, 1 << 18, (1 << 18) + 1, 5'000'000}) {
      std::vector<float> values = counted(count);
      const Numbers expected(values.begin(), values.end());
      Tensor x = from_host(values, {count}, device);
      std::fill(values.begin(), values.end(), 0.0f);  // the device has its own by now
      const bool same = to_host(x) == expected;       // of too many numbers to print
      CHECK(same);
    }
  }
}

TEST_CASE("backend memory: fresh memory of tests is NaN") {
  Machine machine;
  for (double value : to_host(empty({5}, DType::f32, strict_device()))) CHECK(std::isnan(value));
}

TEST_CASE("backend memory: freed blocks are used again, by size") {
  Machine machine;
  DevicePtr device = cuda_device();
  const auto& allocator = backend_of(device).allocator();
  const std::int64_t before = allocator.bytes_in_use();
  auto storage = std::make_unique<Storage>(device, 4000, Category::weights);
  const std::byte* first = storage->data();
  CHECK(allocator.bytes_in_use() == before + 4096);
  storage.reset();
  CHECK(allocator.bytes_in_use() == before);
  CHECK(allocator.bytes_kept() == 4096);
  Storage again(device, 4090, Category::weights), other(device, 3000, Category::weights);
  CHECK(again.data() == first);
  CHECK(other.data() != first);
  CHECK(allocator.bytes_kept() == 0);
}

TEST_CASE("backend memory: several threads allocate, copy and free") {
  Machine machine;
  const DevicePtr device = cuda_device();
  const std::int64_t before = backend_of(device).allocator().bytes_in_use();
  std::vector<int> wrong(4);
  in_threads(4, [&](int thread) {
    for (int i = 0; i < 20; ++i) {
      const std::vector<float> values(100 * (i % 3 + 1), static_cast<float>(thread));
      const Shape shape{static_cast<std::int64_t>(values.size())};
      const Tensor x = empty(shape, DType::f32, device, Category::communication);
      x.backend().copy_from_host(values.data(), x);
      wrong[thread] += to_host(x) != Numbers(values.begin(), values.end());
    }
  });
  CHECK(wrong == std::vector<int>(4, 0));
  CHECK(backend_of(device).allocator().bytes_in_use() == before);
}

TEST_CASE("backend memory: what is not there is refused") {
  Machine machine;
  for (int ordinal : {-1, devices()})
    CHECK_THROWS_WITH(cuda_device(ordinal),
                      text("cuda: there is no device ", ordinal, "; this machine has ", devices(),
                           ", numbered from 0"));
  DevicePtr device = cuda_device();
  CHECK_THROWS_WITH(
      from_host(std::vector<double>{1}, {1}, device),
      "cuda: expected f32 or bf16, got f64 (1); f64 is for the CPU: use that, or f32");
}
