// An operation outside of autograd/ops: the checks that the library's operations pass.
// Not here: the operation (operation.cpp). Chapter 14.
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/adding/added.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/figures.h"
#include "tests/gradcheck.h"
#include "tests/guarded_device.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

TEST_CASE("adding an operation: gradients are derivatives, errors within bounds", "[adding]") {
  // [snippet check]
  for (const DevicePtr& device : {cpu_device(), guarded_device()})
    for (Tensor (*f)(const Tensor&) : {silu_of_operations, silu})
      check_op({"silu",
                {{{3, 33}, -3, 3}},
                [f](const std::vector<Tensor>& x) { return f(x[0]); },
                {.roundings = 16, .magnitude = 3, .stored = 3}},
               device);
  // [end snippet]
  SUCCEED();
}

TEST_CASE("adding an operation: two ways, one value", "[adding]") {
  const Tensor x = from_host(std::vector<double>{-2, -0.5, 0, 1, 3}, {5}, cpu_device());
  const std::vector<double> a = to_host(silu_of_operations(x)), b = to_host(silu(x));
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-15));
}

TEST_CASE("adding an operation: the loop of a kernel gives the same in every type", "[adding]") {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor x = uniform_tensor({{3, 33}, -3, 3}, "x", cpu_device(), dtype), y = empty_like(x);
    silu_on_cpu(x, y);
    const std::vector<double> got = to_host(y), expected = to_host(silu(x));
    const double off = dtype == DType::bf16 ? 0.03 : 1e-6;  // silu's own steps are rounded, too
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(off));
  }
}

TEST_CASE("adding an operation: a formula without a term is found", "[adding]") {
  // [snippet wrong]
  auto wrong = [](const std::vector<Tensor>& in) {
    const Tensor s = affine(tanh(affine(in[0].detach(), 0.5)), 0.5, 0.5);
    return record(in[0].detach() * s, "silu", in[0], [s](const Tensor& dy) { return dy * s; });
  };
  // [end snippet]
  const Tensor x = from_host(std::vector<double>{1, -2}, {2}, cpu_device());
  check_printed("added_wrong", error_of([&] { check_gradients(wrong, {x}); }) + '\n');
}
