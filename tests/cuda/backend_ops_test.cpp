// Operations on the CUDA backend against f64 on the CPU: every case of op_cases, and sizes past the
// ends of blocks, within the cases' bounds.
// Not here: kernels called directly (backend_kernels_test.cpp).
#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/op_checks.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

using Inputs = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

void check_ops(const Cases& cases, const Settings& settings) {
  Machine machine(settings);
  const DevicePtr device = strict_device(), cpu = cpu_device();
  for (const OpCase& op : cases)
    for (DType dtype : {DType::f32, DType::bf16})
      CHECK_NOTHROW(check_op_precision(op, dtype, device, cpu));
}

/// `count` ids below `limit`, in no order, some of them often.
Tensor some_ids(std::int64_t count, std::int64_t limit, const DevicePtr& device) {
  std::vector<std::int32_t> ids(count);
  for (std::int64_t i = 0; i < count; ++i)
    ids[i] = static_cast<std::int32_t>(random_bits(RandomKey(3, "ids"), i) % limit);
  return from_host(ids, {count}, device);
}

/// Sizes around those of packs, warps, blocks and parts; the bounds are those of op_cases.
Cases wide_cases() {
  Cases cases;
  for (std::int64_t size : {2047, 2048, 2049, 5001})
    cases.push_back({text("gelu ", size),
                     {{{size}, -3, 3}},
                     [](const Inputs& x) { return gelu(x[0]); },
                     {12, 1}});
  for (const Shape& shape : {Shape{1, 513}, Shape{17, 1024}, Shape{35, 1026}})
    cases.push_back({text("bias_gelu ", shape),
                     {{shape, -3, 3}, {{shape[1]}}},
                     [](const Inputs& x) { return bias_gelu(x[0], x[1]); },
                     {16, 1},
                     {shape[0] + 16.0, 1}});
  for (const Shape& shape :
       {Shape{2500}, Shape{3, 1025}, Shape{130, 7}, Shape{40, 16}, Shape{9, 17}, Shape{65, 3, 70}})
    for (int axis : {0, -1}) {
      double count = static_cast<double>(shape[axis]);
      cases.push_back({text("sum of ", axis, " of ", shape),
                       {{shape, -0.25, 1}},
                       [axis](const Inputs& x) { return sum(x[0], {axis}); },
                       {count + 2},
                       exactly});
      cases.push_back({text("max of ", axis, " of ", shape),
                       {{shape}},
                       [axis](const Inputs& x) { return max(x[0], {axis}); },
                       exactly,
                       {2, 0, true, 1}});
    }
  cases.push_back({"sum of columns in parts",
                   {{{1030, 72}, -0.25, 1}},
                   [](const Inputs& x) { return sum(x[0], {0}); },
                   {1032},
                   exactly});
  for (std::int64_t width : {256, 264, 2049}) {
    cases.push_back({text("softmax ", width),
                     {{{3, width}, -3, 3}},
                     [](const Inputs& x) { return softmax(x[0]); },
                     {width + 24.0, 0, true},
                     {width + 16.0, 3, true, 1}});
    cases.push_back({text("cross_entropy ", width),
                     {{{3, width}, -3, 3}},
                     [width](const Inputs& x) {
                       return cross_entropy(x[0], some_ids(3, width, x[0].device()));
                     },
                     {width + 16.0, 3},
                     {width + 16.0, 1, false, 1}});
  }
  for (std::int64_t classes : {130, 192, 2049})
    cases.push_back(linear_cross_entropy_case({37, 24}, classes, [classes](const Tensor& x) {
      return some_ids(37, classes, x.device());
    }));
  for (const Shape& shape :
       {Shape{17, 264}, Shape{33, 9}, Shape{2, 6144}, Shape{2, 8200}, Shape{2, 8195}})
    cases.push_back({text("layer_norm ", shape),
                     {{shape}, {{shape[1]}}, {{shape[1]}}},
                     [](const Inputs& x) { return layer_norm(x[0], x[1], x[2]); },
                     {shape[1] + 8.0, 4},
                     {2.0 * shape[1] + shape[0] + 16, 8}});
  for (const Shape& shape : {Shape{300, 40}, Shape{2, 768}, Shape{3, 1600}, Shape{2, 8200}})
    cases.push_back({text("add_layer_norm ", shape),
                     {{shape}, {shape}, {{shape[1]}}, {{shape[1]}}},
                     [](const Inputs& x) {
                       auto [sum, norm] = add_layer_norm(x[0], x[1], x[2], x[3]);
                       return concatenate({norm, sum}, 0);
                     },
                     {shape[1] + 9.0, 2, false, 5},
                     {2.0 * shape[1] + shape[0] + 24, 8, false, 9}});
  for (std::int64_t width : {1, 33, 264})
    cases.push_back(
        {text("embedding of 100, ", width),
         {{{7, width}}},
         [](const Inputs& x) { return embedding(x[0], some_ids(100, 6, x[0].device())); },
         exactly,
         {100}});
  return cases;
}

}  // namespace

TEST_CASE("backend ops: values and gradients are those of f64 within bounds") {
  const std::string file =
      GENERATE("arithmetic", "attention", "image", "layout", "matmul", "reduce", "rows");
  check_ops(op_cases(file), {});
}

TEST_CASE("backend ops: sizes past the ends of packs, warps and blocks") {
  check_ops(wide_cases(), {});
}

TEST_CASE("backend ops: in other orders of threads and of queued work") {
  const Settings settings =
      GENERATE(Settings{.order = Order::reverse, .schedule = QueueSchedule::eager},
               Settings{.order = Order::random, .schedule = QueueSchedule::random, .seed = 3});
  for (const std::string file : {"reduce", "rows"}) check_ops(op_cases(file), settings);
}

TEST_CASE("backend ops: the same bits in every order of threads, blocks and queued work") {
  for (const OpCase& op : wide_cases())
    for (DType dtype : {DType::f32, DType::bf16}) {
      std::vector<OpResults> results;
      for (Order order : all_orders) {
        Machine machine({.order = order, .schedule = QueueSchedule::random});
        results.push_back(run_op(op, dtype, strict_device()));
      }
      INFO(op.name);
      CHECK((results[0] == results[1] && results[0] == results[2]));
    }
}
