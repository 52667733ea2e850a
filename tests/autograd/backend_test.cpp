// A backend that lacks kernels says which.
#include "autograd/backend.h"

#include <cstring>

#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

namespace {

/// The least that a backend has: memory.
class MemoryBackend : public Backend {
 public:
  const char* name() const override { return "memory"; }
  void* allocate(std::int64_t bytes) override { return std::malloc(bytes); }
  void free(void* data, std::int64_t) override { std::free(data); }
  void copy_from_host(const void* source, Out y) override {
    std::memcpy(y.raw(), source, y.bytes());
  }
  void copy_to_host(In x, void* target) override { std::memcpy(target, x.raw(), x.bytes()); }
  void copy(In x, Out y) override { std::memcpy(y.raw(), x.raw(), x.bytes()); }
  void fill(double, Out y) override { std::memset(y.raw(), 0, y.bytes()); }
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
