// The CUDA backend's matrix products, in all their forms, against plain sums.
// Not here: products as operations (backend_ops_test.cpp).

#include "autograd/ops.h"
#include "autograd/weight_part.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;
using plangrad::autograd::WeightPart;
using plangrad::cuda::cuda_device;

namespace {

struct Sizes {
  std::int64_t batch, m, n, k;
};

/// The tensors of c = op(a) op(b), or c += op(a) op(b), with a bias or without.
struct Product {
  Sizes s;
  Backend::Gemm how;
  Tensor a, b, bias, c;

  Product(Sizes s, Backend::Gemm how, bool with_bias, DType from, DType to, const DevicePtr& device)
      : s(s), how(how) {
    auto draw = [&](const char* name, Shape shape, DType dtype) {
      return uniform_tensor({shape}, name, device, dtype);
    };
    a = draw("a", how.transpose_a ? Shape{s.batch, s.k, s.m} : Shape{s.batch, s.m, s.k}, from);
    b = draw("b", how.transpose_b ? Shape{s.batch, s.n, s.k} : Shape{s.batch, s.k, s.n}, from);
    if (with_bias) bias = draw("bias", {s.n}, from);
    // Without add, c holds NaN, which must not count.
    c = how.add ? draw("c", {s.batch, s.m, s.n}, to) : empty({s.batch, s.m, s.n}, to, device);
  }
};

/// A sum of k products, the bias and what was there is off by that many roundings of the sum of
/// magnitudes; a result in bf16 is rounded once more, and twice if both were added.
///   operand: by how much an operand may be rounded
void check_product(const Product& p, double operand = 0) {
  const Sizes s = p.s;
  const Numbers a = to_host(p.a), b = to_host(p.b), before = to_host(p.c);
  const Numbers bias = p.bias.defined() ? to_host(p.bias) : Numbers(s.n);
  p.c.backend().gemm(p.how, p.a, p.b, p.bias, p.c);
  const Numbers got = to_host(p.c);
  double worst = 0;
  for (std::int64_t i = 0; i < p.c.numel(); ++i) {
    std::int64_t batch = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
    double start = (p.how.add ? before[i] : 0) + bias[column];
    double sum = start, terms = std::abs(start);
    for (std::int64_t l = 0; l < s.k; ++l) {
      double x = a[batch * s.m * s.k + (p.how.transpose_a ? l * s.m + row : row * s.k + l)];
      double y = b[batch * s.k * s.n + (p.how.transpose_b ? column * s.k + l : l * s.n + column)];
      sum += x * y;
      terms += std::abs(x * y);
    }
    double bound = ((s.k + 2) * 0x1p-24 + 2 * operand) * terms;
    if (p.c.dtype() == DType::bf16) bound += 0x1p-8 * (std::abs(sum) + std::abs(start));
    worst = std::max(worst, std::isnan(got[i]) ? HUGE_VAL : std::abs(got[i] - sum) / bound);
  }
  CHECK(worst <= 1);
}

}  // namespace

TEST_CASE("backend gemm: adds and transposes as its formula says") {
  Machine machine;
  const DevicePtr device = strict_device();
  const std::pair<DType, DType> types[] = {
      {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};
  for (Sizes s : {Sizes{1, 1, 1, 1}, {1, 7, 33, 129}, {3, 5, 16, 17}, {2, 1, 129, 3}, {2, 3, 4, 0}})
    for (int form = 0; form < 16; ++form)
      for (auto [from, to] : types) {
        const Backend::Gemm how{(form & 1) != 0, (form & 2) != 0, (form & 4) != 0};
        INFO(s.batch << ' ' << s.m << ' ' << s.n << ' ' << s.k << ", form " << form << ", " << from
                     << " to " << to);
        check_product({s, how, (form & 8) != 0, from, to, device});
      }
}

TEST_CASE("backend gemm: tf32 rounds what is multiplied in f32, and nothing else") {
  Machine machine;
  const DevicePtr device = cuda_device(0), rounding = cuda_device(0, {.tf32 = true});
  const Sizes s{2, 33, 40, 65};
  auto product = [&](const DevicePtr& where, DType dtype) {
    const Product p(s, {}, true, dtype, dtype, where);
    p.c.backend().gemm(p.how, p.a, p.b, p.bias, p.c);
    return to_host(p.c);
  };
  check_product({s, {}, true, DType::f32, DType::f32, rounding}, 0x1p-10);
  CHECK(product(rounding, DType::f32) != product(device, DType::f32));
  CHECK(product(rounding, DType::bf16) == product(device, DType::bf16));
}

TEST_CASE("backend gemm: backward adds a weight's gradient where its sink says that the sum is") {
  Machine machine;
  const DevicePtr device = strict_device();
  for (const int i : {0, 1, 2, 3}) {
    const DType dtype = i % 2 ? DType::bf16 : DType::f32;
    const bool begins = i / 2;  // else there is a sum
    Tensor x = uniform_tensor({{2, 5, 6}}, "x", device, dtype);
    const Tensor w = uniform_tensor({{4, 6}}, "w", device, dtype);
    const Tensor b = uniform_tensor({{4}}, "b", device, dtype);
    const Tensor dy = uniform_tensor({{2, 5, 4}}, "dy", device, dtype);
    Tensor before = uniform_tensor({{4, 6}}, "sum", device, DType::f32);

    Tensor sum = empty_like(before);
    begins ? device->backend().fill(NAN, sum) : device->backend().copy(before, sum);
    if (begins) device->backend().fill(0, before);
    bool begun = !begins;
    auto place = [&] { return SumPlace{sum, std::exchange(begun, true)}; };
    int added = 0;
    auto add = [&](const Tensor& dw) { ++added, dw.backend().accumulate(dw, before); };
    auto none = [](const Tensor&) {};
    for (bool in_place : {false, true}) {
      const Tensor weight = in_place ? variable(w, {add, place}) : variable(w, add);
      WeightPart later;
      for (WeightPart* part : std::initializer_list<WeightPart*>{nullptr, &later})
        backward(linear(variable(x), weight, variable(b, none)), dy, part);
      later.run();
    }
    CHECK(added == 2);  // both without a place, whole and as the second part
    CHECK(to_host(sum) == to_host(before));
  }
}

TEST_CASE("backend gemm: what cuBLAS does not have is refused") {
  Machine machine;
  const DevicePtr device = cuda_device();
  const Tensor a = empty({1, 2, 2}, DType::f32, device), c = empty({1, 2, 2}, DType::bf16, device);
  CHECK_THROWS_WITH(
      device->backend().gemm({}, a, a, {}, c),
      "gemm: a is f32 (1,2,2), c is bf16 (1,2,2); expected c in a's type, or in f32 for bf16");
}
