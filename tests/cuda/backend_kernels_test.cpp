// Kernels of the CUDA backend that operations do not reach, or not with such sizes, on the
// emulator: the same calls on the CPU say what must come out.
// Not here: operations (backend_ops_test.cpp), errors (backend_errors_test.cpp), rows of logits
// (backend_logits_test.cpp), optimizers (backend_optimizers_test.cpp).
#include <limits>

#include "autograd/backend.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/backend_both.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

TEST_CASE("backend kernels: fills and random numbers are the CPU's") {
  Machine machine;
  for (DType dtype : floating)
    for (std::int64_t size : sizes) {
      auto filled = [&](auto fill) {
        return Both([&](const DevicePtr& device) {
          Tensor y = empty({size}, dtype, device);
          fill(y);
          return y;
        });
      };
      CHECK(filled([](const Tensor& y) { y.backend().fill(0, y); }).equal());
      CHECK(filled([](const Tensor& y) { y.backend().fill(-1.7, y); }).equal());
      const RandomKey key(5, "fill");
      CHECK(filled([&](const Tensor& y) { y.backend().fill_uniform(key, -1, 1, y); }).equal());
      // Below 6, and both in f64: apart by one rounding to the type.
      Both normal = filled([&](const Tensor& y) { y.backend().fill_normal(key, 0.5, 1, y); });
      CHECK(normal.largest_error() <= 8 * (dtype == DType::f32 ? 0x1p-24 : 0x1p-8));
      CHECK(filled([&](const Tensor& y) {
              Tensor x = numbers("x", {size}, dtype, y.device());
              y.backend().dropout(x, 0.25, key, y);
            }).equal());
      CHECK(filled([&](const Tensor& y) {
              Tensor x = off_by_one("x", size, dtype, y.device());
              y.backend().dropout(x, 0.25, key, y);
            }).equal());
    }
}

TEST_CASE("backend kernels: integers and bytes can be zeros") {
  Machine machine;
  const DevicePtr device = strict_device();
  CHECK(to_host(zeros({3}, DType::i32, device)) == Numbers(3, 0));
  std::vector<std::uint8_t> bytes(5, 1);
  device->backend().copy_to_host(zeros({5}, DType::u8, device), bytes.data());
  CHECK(bytes == std::vector<std::uint8_t>(5, 0));
}

TEST_CASE("backend kernels: copies between types, and sums in the wider one") {
  Machine machine;
  for (DType from : floating)
    for (DType to : floating)
      for (std::int64_t size : sizes)
        for (auto make : {off_by_one, +[](const char*name, std::int64_t count, DType dtype,
                                          const DevicePtr&device) {
                            return numbers(name, {count}, dtype, device);
                          }}) {
          Both copied([&](const DevicePtr& device) {
            Tensor y = empty({size}, to, device);
            y.backend().copy(make("x", size, from, device), y);
            return y;
          });
          CHECK(copied.equal());
          Both summed([&](const DevicePtr& device) {
            Tensor y = numbers("y", {size}, to, device);
            y.backend().accumulate(make("x", size, from, device), y);
            return y;
          });
          CHECK(summed.equal());
        }
}

TEST_CASE("backend kernels: permutations") {
  Machine machine;
  for (DType dtype : {DType::f32, DType::bf16, DType::i32}) {
    auto make = [&](const char* name, const Shape& shape, const DevicePtr& device) {
      if (dtype != DType::i32) return numbers(name, shape, dtype, device);
      return from_host(std::vector<std::int32_t>(shape.numel(), name[0]), shape, device);
    };
    Both permuted([&](const DevicePtr& device) {
      Tensor x = make("x", {3, 1, 17, 2, 5}, device), y = empty({17, 5, 3, 2, 1}, dtype, device);
      y.backend().permute(x, {2, 4, 0, 3, 1}, y);
      return y;
    });
    CHECK(permuted.equal());
    // The last dimension moves in words of 16 bytes down to single elements.
    for (auto [last, offset] : {std::pair{8, 0}, {8, 4}, {8, 1}, {6, 0}, {3, 0}}) {
      Both moved([&, last = last, offset = offset](const DevicePtr& device) {
        const Shape shape{3, 5, 2, last};
        Tensor x = make("x", {shape.numel() + offset}, device).window(offset, shape);
        Tensor y = empty({2, 3, 5, last}, dtype, device);
        y.backend().permute(x, {2, 0, 1, 3}, y);
        return y;
      });
      CHECK(moved.equal());
    }
  }
}

TEST_CASE("backend kernels: a factor of 1 changes nothing, others round once") {
  Machine machine;
  for (DType dtype : floating)
    for (double factor : {1.0, -0.3}) {
      Both scaled([&](const DevicePtr& device) {
        const Tensor x = off_by_one("x", 2051, dtype, device);
        x.backend().scale_by(full({}, factor, DType::f32, device), x);
        return x;
      });
      CHECK(scaled.equal());
      const Numbers before = to_host(off_by_one("x", 2051, dtype, cpu_device()));
      CHECK((scaled.cpu == before) == (factor == 1));
    }
}

TEST_CASE("backend kernels: gather and expand") {
  Machine machine;
  for (DType from : floating)
    for (DType to : floating)
      for (std::int64_t size : {1, 7, 3001}) {
        auto index = [&](const DevicePtr& device) {
          std::vector<std::int32_t> places;
          for (std::int64_t i = 0; i < size; ++i)
            if (i % 3 != 1) places.push_back(static_cast<std::int32_t>(i));
          return integers(places, {static_cast<std::int64_t>(places.size())}, device);
        };
        for (bool add : {false, true}) {
          Both gathered([&](const DevicePtr& device) {
            Tensor places = index(device), y = numbers("y", places.shape(), to, device);
            y.backend().gather(numbers("x", {size}, from, device), places, add, y);
            return y;
          });
          CHECK(gathered.equal());
        }
        Both expanded([&](const DevicePtr& device) {
          Tensor places = index(device), y = empty({size}, to, device);
          y.backend().expand(numbers("x", places.shape(), to, device), places, y);
          return y;
        });
        CHECK(expanded.equal());
      }
}

TEST_CASE("backend kernels: the sum of squares is exact to f64") {
  Machine machine;
  for (DType dtype : floating)
    for (std::int64_t size : {0, 1, 8191, 8193, 50'000}) {
      auto squares = [&](const DevicePtr& device) {
        return device->backend().sums_of_squares({off_by_one("x", size, dtype, device)})[0];
      };
      // Squares of f32 are exact in f64; each sum rounds fewer than `size` times.
      const double expected = squares(cpu_device());
      CHECK(std::abs(squares(cuda_device()) - expected) <= 2 * size * expected * 0x1p-53);
    }
  const DevicePtr device = cuda_device();
  for (DType dtype : floating) {  // wherever they begin
    const Tensor x = off_by_one("x", 20'000, dtype, device), same = empty_like(x);
    x.backend().copy(x, same);
    CHECK(x.backend().sums_of_squares({x})[0] == x.backend().sums_of_squares({same})[0]);
  }
  std::vector<Tensor> tensors;
  Numbers one_by_one;
  for (std::int64_t size : {3, 0, 20'000, 8192, 1}) {
    tensors.push_back(off_by_one("x", size, size < 10 ? DType::f32 : DType::bf16, device));
    one_by_one.push_back(device->backend().sums_of_squares({tensors.back()})[0]);
  }
  CHECK(device->backend().sums_of_squares(tensors) == one_by_one);
  CHECK(device->backend().sums_of_squares({}).empty());
}

TEST_CASE("backend kernels: NaN and infinities are seen") {
  Machine machine;
  const float infinite = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const std::vector<float>& row : {std::vector<float>{1e30f, 1e30f, -1e30f},
                                        {5, -infinite, 5},
                                        {1, nan, 2},
                                        {nan, 1, 2},
                                        {-infinite, -infinite, -infinite}}) {
    auto of_row = [&](auto f) {
      return Both([&](const DevicePtr& device) { return f(floats(row, {1, 3}, device)); });
    };
    CHECK(of_row([](const Tensor& x) { return softmax(x); }).equal());
    CHECK(of_row([](const Tensor& x) { return relu(x); }).equal());
    CHECK(of_row([](const Tensor& x) { return max(x, {1}); }).equal());
    for (int axis : {0, 1})  // 40 numbers more, of which some meet it in one thread
      CHECK(of_row([axis](const Tensor& x) {
              Shape shape = x.shape().with(axis, 40);
              return max(concatenate({x, zeros(shape, DType::f32, x.device())}, axis), {axis});
            }).equal());
    CHECK(of_row([](const Tensor& x) {
            return cross_entropy(x, integers({0}, {1}, x.device()));
          }).equal());
  }
}
