// A backend that lacks kernels says which, and is told of the calls of those that it has.
#include "autograd/backend.h"

#include <cstring>

#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

namespace {

/// The least that a backend has: memory. It counts the calls of its kernels.
class MemoryBackend : public Backend {
 public:
  int begun = 0, ended = 0;
  bool inside = false;  // whether the last kernel ran between its two calls

  const char* name() const override { return "memory"; }
  void* allocate(std::int64_t bytes) override { return std::malloc(bytes); }
  void free(void* data, std::int64_t) override { std::free(data); }
  void copy_from_host(const void* source, Out y) override {
    inside = begun == ended + 1;
    std::memcpy(y.raw(), source, y.bytes());
  }
  void copy_to_host(In x, void* target) override { std::memcpy(target, x.raw(), x.bytes()); }
  void copy(In x, Out y) override { std::memcpy(y.raw(), x.raw(), x.bytes()); }
  void fill(double, Out y) override { std::memset(y.raw(), 0, y.bytes()); }

  void begin_kernel() override { ++begun; }
  void end_kernel() override { ++ended; }
};

}  // namespace

TEST_CASE("backend: a kernel that it lacks is named, with the device and what to do") {
  DevicePtr device = std::make_shared<Device>(std::make_shared<MemoryBackend>());
  Tensor x = floats({1, 2}, {1, 2}, device);
  CHECK(to_host(x) == Numbers{1, 2});
  CHECK_THROWS_WITH(softmax(x),
                    "softmax: the device memory has no kernel for it; compute on the CPU, or write "
                    "the kernel: override Backend::softmax in the backend of memory");
  CHECK_THROWS_WITH(x + x, Contains("binary: the device memory has no kernel for it"));
  CHECK_THROWS_WITH(x.backend().sums_of_squares({x})[0],
                    Contains("sums_of_squares: the device memory"));
  CHECK_THROWS_WITH(x.backend().sgd({}, {}, x, x, x, x), Contains("sgd: the device memory"));
}

TEST_CASE("backend: a call of a kernel lasts as long as its expression") {
  auto backend = std::make_shared<MemoryBackend>();
  DevicePtr device = std::make_shared<Device>(backend);
  Tensor x = empty({2}, DType::f32, device);
  const int before = backend->begun;
  const float values[] = {3, 4};
  x.backend().copy_from_host(values, x);
  CHECK(backend->inside);
  CHECK(backend->begun == before + 1);
  CHECK(backend->ended == before + 1);
  CHECK_THROWS(x.backend().softmax(x, x));  // an error ends it, too
  CHECK(backend->begun == before + 2);
  CHECK(backend->ended == before + 2);
}
