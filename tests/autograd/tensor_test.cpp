// Tensors: windows, copies to and from the host, types, and how bf16 rounds.
#include "autograd/tensor.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

TEST_CASE("tensor: values come back from the device", "[tensor]") {
  DevicePtr device = cpu_device();
  CHECK(to_host(floats({1, -2, 0.5}, {3}, device)) == Numbers{1, -2, 0.5});
  CHECK(to_host(floats({1, -2, 0.5}, {3}, device, DType::bf16)) == Numbers{1, -2, 0.5});
  CHECK(to_host(floats({1, -2, 0.5}, {3}, device, DType::f64)) == Numbers{1, -2, 0.5});
  CHECK(to_host(doubles({1e-300, 1 / 3.0}, {2}, device)) == Numbers{1e-300, 1 / 3.0});
  CHECK(to_host(full({2, 2}, 3, DType::bf16, device)) == Numbers{3, 3, 3, 3});
  CHECK(to_host(zeros({0}, DType::f32, device)).empty());
  CHECK(item(floats({4}, {}, device)) == 4);
  CHECK(text(zeros({2, 3}, DType::bf16, device), ", ", Tensor()) ==
        "bf16 (2,3), an undefined tensor");
}

TEST_CASE("tensor: a window shares values", "[tensor]") {
  Tensor x = floats({0, 1, 2, 3, 4, 5}, {2, 3}, cpu_device());
  Tensor w = x.window(2, {3, 1});
  CHECK(to_host(w) == Numbers{2, 3, 4});
  CHECK(w.shape() == Shape{3, 1});
  w.backend().fill(9, w);
  CHECK(to_host(x) == Numbers{0, 1, 9, 9, 9, 5});
  CHECK(to_host(w.window(1, {2})) == Numbers{9, 9});
  CHECK(w.window(1, {2}).raw() == x.raw() + 3 * sizeof(float));
  CHECK_THROWS_WITH(x.window(4, {3}), "a window (3) at element 4 does not fit a tensor (2,3)");
  CHECK_THROWS_WITH(x.window(-1, {1}), Contains("at element -1"));
  CHECK_THROWS_WITH(w.window(2, {2}), Contains("does not fit a tensor (3,1)"));
}

TEST_CASE("tensor: converting copies", "[tensor]") {
  DevicePtr device = cpu_device();
  Tensor x = doubles({1 + 0x1p-40, -1e-3, 300}, {3}, device);
  Tensor single = zeros({3}, DType::f32, device), brain = zeros({3}, DType::bf16, device);
  x.backend().copy(x, single);
  CHECK(to_host(single) == Numbers{1, -1e-3f, 300});
  x.backend().copy(single, brain);
  CHECK(to_host(brain) == Numbers{1, bf16(-1e-3f), 300});
  x.backend().copy(brain, x);
  CHECK(to_host(x) == to_host(brain));
}

TEST_CASE("tensor: wrong types and counts are refused", "[tensor]") {
  DevicePtr device = cpu_device();
  CHECK_THROWS_WITH(floats({1, 2}, {3}, device), "a tensor (3) needs 3 values, got 2");
  CHECK_THROWS_WITH(floats({1}, {1}, device, DType::i32),
                    "float values make a floating-point tensor, not i32");
  CHECK_THROWS_WITH(zeros({1}, DType::f32, device).data<double>(),
                    "expected a tensor of f64, got f32");
  CHECK_THROWS_WITH(item(zeros({2}, DType::f32, device)),
                    "item: expected a tensor with one element, got f32 (2)");
  CHECK(to_host(integers({7}, {1}, device)) == Numbers{7});
  auto storage = std::make_shared<Storage>(device, 8, Category::weights);
  CHECK_THROWS_WITH(Tensor(storage, 1, Shape{2}, DType::f32),
                    "a f32 (2) at element 1 does not fit a storage of 8 bytes");
}

TEST_CASE("bf16: rounds to nearest, ties to even", "[bf16]") {
  struct {
    std::uint32_t from;
    std::uint16_t to;
  } cases[] = {
      {0x3f800000, 0x3f80},  // 1
      {0x3f808000, 0x3f80},  // halfway, the lower is even
      {0x3f818000, 0x3f82},  // halfway, the upper is even
      {0x3f808001, 0x3f81},  // just above halfway
      {0x3f817fff, 0x3f81},  // just below halfway
      {0xbf818000, 0xbf82},  // the same below zero
      {0x7f7f7fff, 0x7f7f},  // the largest that stays finite
      {0x7f7f8000, 0x7f80},  // from here on: infinity
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80},
      {0x80000000, 0x8000}, {0x00018000, 0x0002},  // denormals round like the rest
      {0x00008000, 0x0000}, {0x00008001, 0x0001},
      {0x7f800001, 0x7fc0},  // NaN whose payload is cut off stays NaN
      {0xffffffff, 0xffff},
  };
  for (auto [from, to] : cases) {
    INFO(std::hex << from);
    CHECK(bf16(std::bit_cast<float>(from)).bits == to);
  }
}

TEST_CASE("bf16: every value survives a round trip", "[bf16]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 x;
    x.bits = static_cast<std::uint16_t>(bits);
    float f = x;
    wrong += f != f ? !(float(bf16(f)) != float(bf16(f))) : bf16(f).bits != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("tensor: sizes that 64 bits cannot count are refused") {
  std::int64_t big = std::int64_t{1} << 31;
  CHECK_THROWS_WITH(Shape({2 * big, 2 * big}).numel(), Contains("more elements than 64 bits"));
  CHECK_THROWS_WITH(empty({big, big}, DType::f32, cpu_device()),
                    Contains("more bytes than 64 bits"));
}

TEST_CASE("bf16: kernels round as the host does", "[bf16]") {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 4096; ++i) {
    float x = std::bit_cast<float>(i * 1048573u + 12345u);  // all exponents, with odd low bits
    if (x == x) values.push_back(x);
  }
  std::int64_t n = static_cast<std::int64_t>(values.size());
  Tensor x = floats(values, {n}, cpu_device()), y = zeros({n}, DType::bf16, x.device());
  x.backend().copy(x, y);
  CHECK(to_host(y) == to_host(floats(values, {n}, x.device(), DType::bf16)));
}
