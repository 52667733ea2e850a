// Image kernels of the CUDA backend against f64 on the CPU: sizes on both sides of those of tiles,
// blocks and parts of sums.
// Not here: the operations' meaning (tests/autograd/image_test.cpp).
#include "autograd/ops.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

namespace {

using Inputs = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

struct Convolution {
  Shape x, weight;
  int stride, padding;
};

/// Bounds as in tests/autograd/image_test.cpp: a rounding for each term of the longest sum.
Cases convolutions() {
  Cases cases;
  for (const Convolution& c : {Convolution{{1, 1, 1, 1}, {1, 1, 1, 1}, 1, 0},
                               {{2, 3, 5, 4}, {2, 3, 1, 1}, 2, 0},
                               {{2, 2, 5, 4}, {3, 2, 1, 1}, 1, 2},
                               {{2, 2, 8, 6}, {3, 2, 3, 3}, 2, 1},
                               {{3, 2, 3, 4}, {3, 2, 3, 4}, 1, 0},
                               {{2, 2, 2, 1}, {2, 2, 5, 4}, 3, 3},
                               {{1, 2, 9, 9}, {2, 2, 2, 3}, 4, 0},
                               {{2, 3, 11, 9}, {5, 3, 3, 3}, 2, 1},
                               {{1, 5, 7, 13}, {7, 5, 5, 3}, 3, 2},
                               {{2, 33, 6, 5}, {17, 33, 3, 3}, 1, 1},  // several tiles of taps
                               {{1, 66, 3, 3}, {65, 66, 2, 1}, 1, 1},  // past a tile's rows
                               {{3, 1, 40, 41}, {2, 1, 3, 3}, 1, 1}})  // past a part of a sum
    cases.push_back({text("conv2d ", c.x, c.weight),
                     {{c.x}, {c.weight}},
                     [c](const Inputs& x) { return conv2d(x[0], x[1], c.stride, c.padding); },
                     {c.weight.numel() / c.weight[0] + 2.0},
                     {static_cast<double>(c.x.numel() + c.weight.numel())}});
  return cases;
}

struct Pool {
  Shape x;
  int size, stride, padding;
};

Cases pools() {
  Cases cases;
  for (const Pool& p : {Pool{{1, 1, 1, 1}, 1, 1, 0},
                        {{1, 2, 5, 5}, 5, 1, 0},
                        {{1, 2, 1, 3}, 3, 1, 1},
                        {{3, 1, 9, 7}, 2, 5, 1},
                        {{2, 2, 33, 17}, 3, 1, 1}}) {
    const double windows = p.size * p.size;  // that may share a pixel
    cases.push_back({text("max_pool2d ", p.x),
                     {{p.x}},
                     [p](const Inputs& x) { return max_pool2d(x[0], p.size, p.stride, p.padding); },
                     exactly,
                     {windows, windows}});
    cases.push_back(
        {text("average_pool2d ", p.x),
         {{p.x}},
         [p](const Inputs& x) { return average_pool2d(x[0], p.size, p.stride, p.padding); },
         {windows + 2, 0, false, 1},  // the sum is stored
         {2 * windows + 2, 0, false, 1}});
  }
  return cases;
}

/// Bounds are those of op_cases, with the roundings of a longer sum.
Cases batch_norms() {
  Cases cases;
  for (const Shape& shape : {Shape{2, 1, 1, 1}, Shape{3, 4, 5, 7}, Shape{2, 3, 20, 21}}) {
    const double count = static_cast<double>(shape.numel() / shape[1]);
    cases.push_back({text("batch_norm ", shape),
                     {{shape}, {{shape[1]}}, {{shape[1]}}},
                     [](const Inputs& x) {
                       const DType dtype = gradient_dtype(x[0].dtype());
                       const Shape each{x[0].size(1)};
                       RunningStatistics running{zeros(each, dtype, x[0].device()),
                                                 full(each, 2, dtype, x[0].device())};
                       return batch_norm(x[0], x[1], x[2], running, true);
                     },
                     {count + 80, 2},
                     {2 * count + 150, 8}});
  }
  return cases;
}

Cases all_cases() {
  Cases cases = convolutions();
  for (const Cases& more : {pools(), batch_norms()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace

TEST_CASE("backend images: values and gradients are those of f64 within bounds") {
  Machine machine;
  const DevicePtr device = strict_device(), cpu = cpu_device();
  for (const OpCase& op : all_cases())
    for (DType dtype : {DType::f32, DType::bf16})
      CHECK_NOTHROW(check_op_precision(op, dtype, device, cpu));
}

TEST_CASE("backend images: the same bits in every order of threads") {
  for (const OpCase& op : all_cases()) {
    std::vector<OpResults> results;
    for (Order order : all_orders) {
      Machine machine({.order = order, .schedule = QueueSchedule::random});
      results.push_back(run_op(op, DType::bf16, strict_device()));
    }
    INFO(op.name);
    const bool same = results[1] == results[0] && results[2] == results[0];
    CHECK(same);
  }
}

TEST_CASE("backend images: a maximum's place is the first of equals, and never padding") {
  Machine machine;
  const DevicePtr device = cuda_device();
  const Tensor x = variable(floats({-1, -1, -2, -1}, {1, 1, 2, 2}, device));
  const Tensor y = max_pool2d(x, 2, 1, 1);
  CHECK(to_host(y) == Numbers{-1, -1, -1, -1, -1, -1, -2, -1, -1});
  backward(y, floats({1, 2, 3, 4, 5, 6, 7, 8, 9}, y.shape(), device));
  CHECK(to_host(gradient(x)) == Numbers{1 + 2 + 4 + 5, 3 + 6, 7, 8 + 9});
}

TEST_CASE("backend images: without images, a weight's gradient is zero") {
  Machine machine;
  const DevicePtr device = strict_device();
  const Tensor x = empty({0, 2, 3, 3}, DType::f32, device),
               dw = empty({4, 2, 3, 3}, DType::f32, device);
  device->backend().conv2d_backward_weight(x, empty({0, 4, 1, 1}, DType::f32, device), {3, 3}, dw);
  CHECK(to_host(dw) == Numbers(dw.numel()));
}
