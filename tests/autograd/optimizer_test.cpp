// Optimizer kernels: each element by the formula, rounding to narrow weights, odd sizes.
// Not here: which parameters decay, schedules, clipping (nn/optimizers/optimizer.h).

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

/// What an optimizer holds for n weights.
struct Buffers {
  Tensor gradient, first, second, master, weights;
  Segments all;

  Buffers(std::int64_t n, DType dtype, DType narrow, const DevicePtr& device)
      : gradient(uniform_tensor({{n}}, "gradient", device, dtype)),
        first(zeros({n}, dtype, device)),
        second(zeros({n}, dtype, device)),
        master(uniform_tensor({{n}, 0.5, 1.5}, "weights", device, dtype)),
        weights(narrow == dtype ? master : zeros({n}, narrow, device)),
        all{{0, n}} {}

  Backend& backend() const { return gradient.backend(); }
};

}  // namespace

TEST_CASE("optimizer: SGD with momentum and decay", "[optimizer]") {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 7, 33, 129}) {
      Buffers b(n, dtype, dtype, cpu_device());
      SgdStep step{0.1, 0.9, 0.01, 0.5};
      Numbers g = to_host(b.gradient), w = to_host(b.master), m(n);
      for (int t = 0; t < 5; ++t) {
        b.backend().sgd(step, b.all, b.gradient, b.first, b.master, b.weights);
        for (std::int64_t i = 0; i < n; ++i) {
          m[i] = 0.9 * m[i] + (0.5 * g[i] + 0.01 * w[i]);
          w[i] -= 0.1 * m[i];
        }
      }
      double unit = dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
      // Values stay below 4; each step rounds six times.
      CHECK(largest_difference(to_host(b.master), w) <= 5 * 6 * 4 * unit);
      CHECK(largest_difference(to_host(b.first), m) <= 5 * 6 * 4 * unit);
    }
}

TEST_CASE("optimizer: AdamW by its formula", "[optimizer]") {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 7, 33, 129}) {
      Buffers b(n, dtype, dtype, cpu_device());
      AdamWStep step{0.01, 0.9, 0.95, 1e-8, 0.1, 0.25, 1};
      Numbers g = to_host(b.gradient), w = to_host(b.master), m(n), v(n);
      for (; step.step <= 5; ++step.step) {
        b.backend().adamw(step, b.all, b.gradient, b.first, b.second, b.master, b.weights);
        double t = static_cast<double>(step.step);
        for (std::int64_t i = 0; i < n; ++i) {
          double d = 0.25 * g[i];
          m[i] = 0.9 * m[i] + 0.1 * d;
          v[i] = 0.95 * v[i] + 0.05 * d * d;
          double mean = m[i] / (1 - std::pow(0.9, t)), square = v[i] / (1 - std::pow(0.95, t));
          w[i] -= 0.01 * (mean / (std::sqrt(square) + 1e-8) + 0.1 * w[i]);
        }
      }
      double unit = dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
      // Weights stay below 2 and moments below 1; each step rounds some ten times.
      CHECK(largest_difference(to_host(b.master), w) <= 5 * 10 * 2 * unit);
      CHECK(largest_difference(to_host(b.first), m) <= 5 * 10 * unit);
      CHECK(largest_difference(to_host(b.second), v) <= 5 * 10 * unit);
    }
}

TEST_CASE("optimizer: narrow weights are the rounded master", "[optimizer]") {
  for (std::int64_t n : {1, 33, 129}) {
    DevicePtr device = cpu_device();
    Buffers wide(n, DType::f32, DType::f32, device), narrow(n, DType::f32, DType::bf16, device);
    Tensor before = zeros({n}, DType::f32, device);
    device->backend().copy(wide.master, before);
    AdamWStep adam{1e-5, 0.9, 0.999, 1e-8, 0.1, 1, 1};  // steps far below a bf16's last place
    SgdStep sgd{1e-5, 0.9, 0.1, 1};
    for (Buffers* b : {&wide, &narrow}) {
      b->backend().adamw(adam, b->all, b->gradient, b->first, b->second, b->master, b->weights);
      b->backend().sgd(sgd, b->all, b->gradient, b->first, b->master, b->weights);
    }
    CHECK(to_host(narrow.master) == to_host(wide.master));
    CHECK(to_host(narrow.master) != to_host(before));
    Tensor rounded = zeros({n}, DType::bf16, device);
    device->backend().copy(wide.master, rounded);
    CHECK(to_host(narrow.weights) == to_host(rounded));
  }
}
