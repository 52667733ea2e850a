// A gradient sum begins with what is written, needs no zeros, and is whole when it is read.
#include "parallel/engine/weight_store.h"

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::nn;
using namespace plangrad::tests;
using plangrad::parallel::GradientSum;

TEST_CASE("gradient sum: a parameter's part begins once, and parts without a gradient are zeros") {
  ParameterList parameters;
  const Parameter& a = parameters.add("a", {2}, {});
  parameters.add("b", {2, 1}, {});
  const Tensor flat = full({4}, NAN, DType::f32, cpu_device());
  GradientSum sum(flat, parameters);
  CHECK_FALSE(sum.begun(a));
  flat.backend().fill(3, flat.window(0, {2}));
  CHECK(sum.begun(a));
  CHECK(to_host(sum.whole()) == Numbers{3, 3, 0, 0});
  CHECK(sum.begun(a));
  flat.backend().fill(5, flat);
  CHECK(to_host(sum.whole()) == Numbers{5, 5, 5, 5});
  CHECK(GradientSum(flat).begun(a));
}
