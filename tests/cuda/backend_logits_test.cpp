// Kernels of the CUDA backend for rows of logits, on the emulator: the same calls on the CPU say
// what must come out.

#include "autograd/backend.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/backend_both.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

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
      auto row = [&](const Tensor& of, std::int64_t r) {
        return of.window(r * of.size(1), {classes});
      };
      for (std::int64_t r = 0; r < rows; ++r) x.backend().copy(row(some, r), row(x, r));
      const Tensor loss = empty({rows}, DType::f32, device), inner = empty_like(some);
      x.backend().cross_entropy(x, integers({66, 0, 5}, {rows}, device), classes, 1, loss, x);
      for (std::int64_t r = 0; r < rows; ++r) x.backend().copy(row(x, r), row(inner, r));
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
