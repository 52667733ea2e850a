// Layout: where values go, gradients, what is shared and what is copied, messages.
#include "autograd/ops.h"

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

/// 0, 1, 2, ...
Tensor counting(Shape shape, const DevicePtr& device) {
  std::vector<float> values(shape.numel());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return floats(values, std::move(shape), device);
}

}  // namespace

TEST_CASE("layout: gradients and precision", "[layout]") {
  for (const OpCase& op : op_cases("layout")) CHECK_NOTHROW(check_op(op, cpu_device()));
}

TEST_CASE("layout: values land where they should", "[layout]") {
  Tensor x = counting({2, 3}, cpu_device());
  CHECK(to_host(transpose(x)) == Numbers{0, 3, 1, 4, 2, 5});
  CHECK(transpose(x).shape() == Shape{3, 2});
  CHECK(reshape(x, {-1}).shape() == Shape{6});
  CHECK(reshape(x, {3, -1, 1}).shape() == Shape{3, 2, 1});
  CHECK(to_host(slice(x, 1, 1, 3)) == Numbers{1, 2, 4, 5});
  CHECK(to_host(slice(x, -2, 1, 2)) == Numbers{3, 4, 5});
  CHECK(to_host(concatenate({x, slice(x, 1, 0, 1)}, 1)) == Numbers{0, 1, 2, 0, 3, 4, 5, 3});
  CHECK(to_host(concatenate({x, x}, 0)) == Numbers{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(permute(counting({2, 3, 5}, x.device()), {2, 0, 1}).shape() == Shape{5, 2, 3});
}

TEST_CASE("layout: permuting moves each element to its place", "[layout]") {
  Tensor x = counting({4, 3, 5, 2}, cpu_device());
  Tensor y = permute(x, {2, 0, 3, 1});  // y[c,a,d,b] = x[a,b,c,d]
  Numbers in = to_host(x), out = to_host(y);
  int wrong = 0;
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 5; ++c)
        for (int d = 0; d < 2; ++d)
          wrong += in[((a * 3 + b) * 5 + c) * 2 + d] != out[((c * 4 + a) * 2 + d) * 3 + b];
  CHECK(wrong == 0);
}

TEST_CASE("layout: what shares storage and what does not", "[layout]") {
  Tensor x = counting({4, 3}, cpu_device());
  CHECK(reshape(x, {12}).storage() == x.storage());
  CHECK(slice(x, 0, 1, 3).storage() == x.storage());
  CHECK(slice(x, 1, 1, 3).storage() != x.storage());
  CHECK(transpose(x).storage() != x.storage());
}

TEST_CASE("layout: integers move too", "[layout]") {
  Tensor ids = integers({1, 2, 3, 4, 5, 6}, {2, 3}, cpu_device());
  CHECK(slice(ids, 1, 0, 2).dtype() == DType::i32);
  CHECK(transpose(ids).data<std::int32_t>()[1] == 4);
  CHECK(concatenate({ids, ids}, 1).data<std::int32_t>()[3] == 1);
}

TEST_CASE("layout: what does not fit is refused", "[layout]") {
  Tensor x = counting({2, 3}, cpu_device());
  CHECK_THROWS_WITH(reshape(x, {4}), "reshape: (2,3) has 6 elements, (4) has 4");
  CHECK_THROWS_WITH(reshape(x, {4, -1}), "reshape: (2,3) does not divide into 4 parts");
  CHECK_THROWS_WITH(reshape(x, {-1, -1}), Contains("negative size"));
  CHECK_THROWS_WITH(permute(x, {0}), Contains("has 2 dimensions, the order names 1"));
  CHECK_THROWS_WITH(permute(x, {0, 0}), Contains("must name each dimension of (2,3) once"));
  CHECK_THROWS_WITH(permute(x, {0, 2}), "shape (2,3) has no dimension 2");
  CHECK_THROWS_WITH(slice(x, 1, 2, 2), "slice: [2,2) of dimension 1 of (2,3)");
  CHECK_THROWS_WITH(slice(x, 1, 0, 4), Contains("slice: [0,4)"));
  CHECK_THROWS_WITH(slice(x, 1, -1, 1), Contains("slice: [-1,1)"));
  CHECK_THROWS_WITH(concatenate({}, 0), "concatenate: no parts");
  CHECK_THROWS_WITH(concatenate({x, transpose(x)}, 0),
                    "concatenate: f32 (3,2) does not fit f32 (2,3) along dimension 0");
}
