// Kernels of the CUDA backend that operations do not reach, or not with such sizes, on the
// emulator: the same calls on the CPU say what must come out.
// Not here: operations (backend_ops_test.cpp), errors (backend_errors_test.cpp).
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace paragrad::tests;
using paragrad::cuda::cuda_device;

namespace {

/// What `f` makes on the CPU and on the emulated device.
struct Both {
  Numbers cpu, cuda;

  explicit Both(const std::function<Tensor(const DevicePtr&)>& f)
      : cpu(to_host(f(cpu_device()))), cuda(to_host(f(strict_device()))) {}

  bool equal() const {
    if (cpu.size() != cuda.size()) return false;
    for (std::size_t i = 0; i < cpu.size(); ++i)
      if (cpu[i] != cuda[i] && !(std::isnan(cpu[i]) && std::isnan(cuda[i]))) return false;
    return true;
  }
  double largest_error() const {
    double largest = 0;
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      const double error = std::abs(cpu[i] - cuda[i]);
      largest = error <= largest ? largest : error;  // NaN wins
    }
    return largest;
  }
};

Tensor numbers(const char* name, Shape shape, DType dtype, const DevicePtr& device) {
  return uniform_tensor({std::move(shape)}, name, device, dtype);
}

/// A tensor that begins at an odd element, where packs can't be loaded.
Tensor off_by_one(const char* name, std::int64_t count, DType dtype, const DevicePtr& device) {
  return numbers(name, {count + 1}, dtype, device).window(1, {count});
}

constexpr DType floating[] = {DType::f32, DType::bf16};
constexpr std::int64_t sizes[] = {0, 1, 7, 1023, 1025, 2051};

}  // namespace

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

TEST_CASE("backend kernels: rows and permutations") {
  Machine machine;
  using Rows = Backend::Rows;
  struct Run {
    Rows from;
    std::int64_t rows, width;
    Rows to;
  };
  for (DType dtype : {DType::f32, DType::bf16, DType::i32}) {
    auto make = [&](const char* name, const Shape& shape, const DevicePtr& device) {
      if (dtype != DType::i32) return numbers(name, shape, dtype, device);
      return from_host(std::vector<std::int32_t>(shape.numel(), name[0]), shape, device);
    };
    for (const Run& run :
         {Run{{0, 8}, 3, 8, {0, 8}}, Run{{1, 9}, 5, 3, {2, 7}}, Run{{4, 16}, 40, 12, {8, 20}},
          Run{{0, 1}, 1, 700, {1, 1}}, Run{{3, 0}, 4, 2, {0, 2}}, Run{{0, 4}, 0, 4, {0, 4}}}) {
      Both copied([&](const DevicePtr& device) {
        Tensor x = make("x", {900}, device), y = make("y", {900}, device);
        y.backend().copy_rows(x, run.from, run.rows, run.width, y, run.to);
        return y;
      });
      CHECK(copied.equal());
    }
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

TEST_CASE("backend kernels: rows of logits may begin anywhere") {
  Machine machine;
  const DevicePtr device = cuda_device();
  constexpr std::int64_t rows = 3;
  for (DType dtype : floating)
    for (std::int64_t width : {1, 5, 37, 300})
      for (std::int64_t offset = 0; offset <= 8; ++offset) {
        CAPTURE(dtype, width, offset);
        const Shape shape{rows, width};
        const Tensor ids = integers({0, 0, static_cast<std::int32_t>(width - 1)}, {rows}, device);
        auto some = [&](std::int64_t first) {
          const Tensor all = numbers("x", shape, dtype, device);
          const Tensor x = empty({shape.numel() + first}, dtype, device).window(first, shape);
          x.backend().copy(all, x);
          return x;
        };
        auto place = [&](std::int64_t first) {
          return empty({shape.numel() + first}, dtype, device).window(first, shape);
        };
        /// Losses, then the gradient, which goes to `to`, or nowhere.
        auto outcome = [&](const Tensor& x, const Tensor& to) {
          const Tensor loss = empty({rows}, DType::f32, device);
          x.backend().cross_entropy(x, ids, width, 0.5, loss, to);
          Numbers numbers = to_host(loss);
          if (to.defined())
            for (double d : to_host(to)) numbers.push_back(d);
          return numbers;
        };
        const Numbers expected = outcome(some(0), place(0)),
                      one = outcome(some(offset), place(offset));
        const Tensor x = some(offset);
        CHECK(outcome(x, x) == one);
        CHECK(outcome(some(offset), {}) == Numbers(one.begin(), one.begin() + rows));
        for (const Numbers& got : {one, outcome(some(offset), place(0))})
          for (std::size_t i = 0; i < got.size(); ++i)
            CHECK(got[i] ==
                  Approx(expected[i]).margin(1e-6).epsilon(dtype == DType::f32 ? 1e-5 : 0x1p-7));
      }
}

TEST_CASE("backend kernels: rows of logits that shared memory can and can't hold") {
  Machine machine;
  for (std::int64_t classes : {25'200, 25'300}) {
    auto outcome = [&](const DevicePtr& device) {
      const Tensor x = numbers("x", {2, classes}, DType::f32, device);
      const Tensor loss = empty({2}, DType::f32, device);
      x.backend().cross_entropy(x, integers({3, 25'199}, {2}, device), classes, 1, loss, x);
      return to_host(x);
    };
    const Numbers expected = outcome(cpu_device()), got = outcome(cuda_device());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - expected[i]) / std::abs(expected[i]));
    CHECK(worst <= 1e-5);
  }
}

TEST_CASE("backend kernels: columns past the classes do not count, and have no gradient") {
  Machine machine;
  constexpr std::int64_t rows = 3, classes = 67;
  for (DType dtype : floating) {
    auto outcome = [&](const DevicePtr& device, bool wider) {
      const std::int64_t pitch = wider ? 128 : classes;
      const Tensor x = full({rows, pitch}, std::nan(""), dtype, device);
      const Tensor some = numbers("x", {rows, classes}, dtype, device);
      x.backend().copy_rows(some, {0, classes}, rows, classes, x, {0, pitch});
      const Tensor loss = empty({rows}, DType::f32, device), inner = empty_like(some);
      x.backend().cross_entropy(x, integers({66, 0, 5}, {rows}, device), classes, 1, loss, x);
      x.backend().copy_rows(x, {0, pitch}, rows, classes, inner, {0, classes});
      Numbers result = to_host(inner), all = to_host(x);
      for (double value : to_host(loss)) result.push_back(value);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = classes; c < pitch; ++c) CHECK(all[r * pitch + c] == 0);
      return result;
    };
    CHECK(outcome(cpu_device(), true) == outcome(cpu_device(), false));
    const Numbers cpu = outcome(cpu_device(), true), cuda = outcome(cuda_device(), true);
    for (std::size_t i = 0; i < cpu.size(); ++i)
      CHECK(cuda[i] == Approx(cpu[i]).margin(dtype == DType::f32 ? 1e-6 : 0x1p-8));
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
        return device->backend().sum_of_squares(off_by_one("x", size, dtype, device));
      };
      // Squares of f32 are exact in f64; each sum rounds fewer than `size` times.
      const double expected = squares(cpu_device());
      CHECK(std::abs(squares(cuda_device()) - expected) <= 2 * size * expected * 0x1p-53);
    }
  const DevicePtr device = cuda_device();
  for (DType dtype : floating) {  // wherever they begin
    const Tensor x = off_by_one("x", 20'000, dtype, device), same = empty_like(x);
    x.backend().copy(x, same);
    CHECK(x.backend().sum_of_squares(x) == x.backend().sum_of_squares(same));
  }
  std::vector<Tensor> tensors;
  Numbers one_by_one;
  for (std::int64_t size : {3, 0, 20'000, 8192, 1}) {
    tensors.push_back(off_by_one("x", size, size < 10 ? DType::f32 : DType::bf16, device));
    one_by_one.push_back(device->backend().sum_of_squares(tensors.back()));
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

namespace {

/// Segments of `size` elements that decay in turn, with gaps, some of them inside a pack of 4.
Segments some_segments(std::int64_t size) {
  Segments segments;
  for (std::int64_t first = size / 5, length = 1; first < size; length = 3 * length + 2) {
    const std::int64_t last = std::min(first + length, size);
    segments.push_back({first, last, segments.size() % 2 == 0});
    first = last + (segments.size() % 3 == 0 ? 5 : 0);
  }
  return segments;
}

/// Five steps on the device in f32, and on the CPU in f64 from the same numbers; `odd` elements
/// stand where packs can't be loaded. How far the master, and moments, are apart at most.
template <class Step>
double optimizer_error(std::int64_t size, bool odd, DType weights_type, Step step) {
  auto run = [&](const DevicePtr& device, DType dtype) {
    auto draw = [&](const char* name, double low) {  // of f32, whatever the type
      const auto values =
          to_host(uniform_tensor({{size + odd}, low, low + 1}, name, cpu_device(), DType::f32));
      const std::vector<float> singles(values.begin(), values.end());
      return from_host(singles, {size + odd}, device, dtype).window(odd, {size});
    };
    Tensor gradient = draw("gradient", -0.5), master = draw("master", 0.5);
    Tensor first = zeros({size}, dtype, device), second = zeros({size}, dtype, device);
    Tensor weights = dtype == DType::f64 ? master : zeros({size}, weights_type, device);
    for (int t = 1; t <= 5; ++t) step(t, gradient, first, second, master, weights);
    if (weights.raw() != master.raw()) {
      Tensor rounded = empty({size}, weights_type, device);
      device->backend().copy(master, rounded);
      const Numbers values = to_host(rounded);
      Numbers expected(size, 0);
      for (const Segment& s : some_segments(size))
        std::copy(&values[s.first], &values[s.last - 1] + 1, &expected[s.first]);
      CHECK(to_host(weights) == expected);
    }
    Numbers all = to_host(master);
    for (const Tensor& moment : {first, second})
      for (double value : to_host(moment)) all.push_back(value);
    return all;
  };
  const Numbers expected = run(cpu_device(), DType::f64);
  const Numbers got = run(strict_device(), DType::f32);
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    largest = error <= largest ? largest : error;
  }
  return largest;
}

}  // namespace

TEST_CASE("backend kernels: optimizer steps are those of f64") {
  Machine machine;
  for (DType weights : floating)
    for (bool odd : {false, true})
      for (std::int64_t size : {1, 7, 1023, 1024, 1025, 20'000}) {
        auto sgd = [](int, const Tensor& g, const Tensor& m, const Tensor&, const Tensor& master,
                      const Tensor& w) {
          g.backend().sgd({0.1, 0.9, 0.01, 0.5}, some_segments(g.numel()), g, m, master, w);
        };
        // Values stay below 4 and each step rounds six times; AdamW's weights below 2, ten times.
        CHECK(optimizer_error(size, odd, weights, sgd) <= 5 * 6 * 4 * 0x1p-24);
        auto adamw = [](int t, const Tensor& g, const Tensor& m, const Tensor& v,
                        const Tensor& master, const Tensor& w) {
          const AdamWStep step{0.01, 0.9, 0.95, 1e-8, 0.1, 0.25, t};
          g.backend().adamw(step, some_segments(g.numel()), g, m, v, master, w);
        };
        CHECK(optimizer_error(size, odd, weights, adamw) <= 5 * 10 * 2 * 0x1p-24);
      }
}

TEST_CASE("backend kernels: a step without narrow weights leaves the master as it is with them") {
  Machine machine;
  const DevicePtr device = cuda_device();
  auto stepped = [&](DType narrow) {
    Tensor master = numbers("master", {1025}, DType::f32, device);
    Tensor moment = zeros({1025}, DType::f32, device);
    Tensor weights = narrow == DType::f32 ? master : zeros({1025}, narrow, device);
    const Tensor gradient = numbers("g", {1025}, DType::f32, device);
    device->backend().sgd({}, {{0, 1025}}, gradient, moment, master, weights);
    return to_host(master);
  };
  CHECK(stepped(DType::f32) == stepped(DType::bf16));
}
