// The optimizers' kernels of the CUDA backend, on the emulator, against f64.

#include "autograd/backend.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/backend_both.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

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
  return largest_difference(run(strict_device(), DType::f32), run(cpu_device(), DType::f64));
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
