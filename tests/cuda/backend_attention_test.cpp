// Attention on the CUDA backend, by tensor cores and where these can't be used, against the
// textbook's formulas in f64 with a bound for each element.
// Not here: odd sizes (backend_ops_test.cpp).
#include "autograd/ops.h"

#include "autograd/cpu/cpu_backend.h"
#include "cuda/backend/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

namespace {

struct Sizes {
  int batch, time, heads, size;

  Shape shape(int parts) const { return {batch, time, parts * heads * size}; }
  /// Where value c of row t of a head is, in a tensor of that shape.
  int at(int parts, int part, int head, int t, int c) const {
    return ((head / heads * time + t) * parts * heads + part * heads + head % heads) * size + c;
  }
};

/// A number that a kernel computes, and how far it may be off.
struct Bounded {
  double value = 0, error = 0;

  /// += a b, where b is exact; the sum's own roundings in f32 are off by f of each term.
  void add(Bounded a, double b, double f) {
    value += a.value * b;
    error += a.error * std::abs(b) + f * std::abs(a.value * b);
  }
  /// Rounded to a type of which numbers are off by up to u of themselves.
  Bounded stored(double u) const { return {value, error + u * std::abs(value)}; }
};

using Field = std::vector<Bounded>;

/// What attention and its gradient are, from the values that the device has.
struct Textbook {
  Field y, dqkv;

  /// Relative errors: u of stored numbers, m of what tensor cores multiply, f of sums in f32.
  Textbook(Sizes s, const Numbers& x, const Numbers& dy, double u, double m)
      : y(dy.size()), dqkv(x.size()) {
    // A share's relative error is twice that of its score, a sum of `size` terms that together are
    // below sqrt(size) times the scale; then there are sums over time.
    const double f = (2 * s.time + 12 + 2 * (s.size + 3) * std::sqrt(s.size)) * 0x1p-24;
    for (int head = 0; head < s.batch * s.heads; ++head) attend(s, head, x, dy, u, m, f);
  }

 private:
  void attend(Sizes s, int head, const Numbers& x, const Numbers& dy, double u, double m,
              double f) {
    const double scale = 1 / std::sqrt(double(s.size));
    auto q = [&](int t, int c) { return x[s.at(3, 0, head, t, c)]; };
    auto k = [&](int t, int c) { return x[s.at(3, 1, head, t, c)]; };
    auto v = [&](int t, int c) { return x[s.at(3, 2, head, t, c)]; };
    for (int i = 0; i < s.time; ++i) {
      Field share(i + 1), slope(i + 1);
      Bounded dot;
      double sum = 0;
      for (int j = 0; j <= i; ++j) {
        double score = 0;
        for (int c = 0; c < s.size; ++c) score += scale * q(i, c) * k(j, c);
        sum += share[j].value = std::exp(score);
      }
      for (Bounded& p : share) p = {p.value / sum, f * p.value / sum};
      for (int c = 0; c < s.size; ++c) {
        Bounded& out = y[s.at(1, 0, head, i, c)];
        for (int j = 0; j <= i; ++j) out.add(share[j].stored(m), v(j, c), f);
        out = out.stored(u);
        dot.add(out, dy[s.at(1, 0, head, i, c)], f);
      }
      for (int j = 0; j <= i; ++j) {
        Bounded product;  // dP
        for (int c = 0; c < s.size; ++c) product.add({dy[s.at(1, 0, head, i, c)]}, v(j, c), f);
        const double p = share[j].value, size = std::abs(product.value) + std::abs(dot.value);
        slope[j] = {p * (product.value - dot.value), p * (product.error + dot.error + f * size)};
        for (int c = 0; c < s.size; ++c) {
          dqkv[s.at(3, 0, head, i, c)].add(slope[j].stored(m), scale * k(j, c), f);
          dqkv[s.at(3, 1, head, j, c)].add(slope[j].stored(m), scale * q(i, c), f);
          dqkv[s.at(3, 2, head, j, c)].add(share[j].stored(m), dy[s.at(1, 0, head, i, c)], f);
        }
      }
    }
    for (int part = 0; part < 3; ++part)
      for (int t = 0; t < s.time; ++t)
        for (int c = 0; c < s.size; ++c) {
          Bounded& out = dqkv[s.at(3, part, head, t, c)];
          out = out.stored(u);
        }
  }
};

/// The largest error, where 1 is what is allowed, and 1% for products of errors.
double worst(const Tensor& got, const Field& expected) {
  const Numbers values = to_host(got);
  double result = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(values[i] - expected[i].value) / (1.01 * expected[i].error);
    result = std::isnan(error) ? HUGE_VAL : std::max(result, error);
  }
  return result;
}

struct Outcome {
  Tensor y, dqkv;
};

Outcome attend(Sizes s, const Tensor& x, const Tensor& dy) {
  const Tensor leaf = variable(x), y = attention(leaf, s.heads);
  backward(y, dy);
  return {y.detach(), gradient(leaf)};
}

Outcome attend(Sizes s, DType dtype, const DevicePtr& device) {
  return attend(s, uniform_tensor({s.shape(3)}, "x", device, dtype),
                uniform_tensor({s.shape(1)}, "dy", device, dtype));
}

/// Around the edges of tiles of 16, 32 and 64 rows; every size of a head that tensor cores take.
/// Sizes after these are for tensor cores: one row, several blocks of 64 and 128 rows, and more
/// heads than run together.
const std::vector<Sizes> all_sizes{
    {1, 2, 1, 16},  {2, 15, 2, 32},  {1, 64, 1, 48},   {1, 65, 2, 64},  {1, 33, 1, 80},
    {2, 31, 1, 96}, {1, 66, 1, 112}, {1, 130, 1, 128}, {1, 200, 1, 16}, {1, 17, 1, 127}};
const std::vector<Sizes> tensor_core_sizes{{1, 1, 1, 64},   {1, 128, 1, 80}, {1, 193, 1, 112},
                                           {1, 257, 1, 64}, {1, 160, 1, 96}, {1, 129, 33, 16}};

}  // namespace

// GPUs of compute capability 9.0 have other instructions for heads of 64 values in bf16; all else
// runs there as it does on others.
TEST_CASE("backend attention: each value and gradient within its bound") {
  const int capability = GENERATE(80, 90);
  CAPTURE(capability);
  Machine machine({.compute_capability = capability});
  const DevicePtr device = strict_device();
  auto check = [&](Sizes s, DType dtype) {
    const Tensor x = uniform_tensor({s.shape(3)}, "x", device, dtype);
    const Tensor dy = uniform_tensor({s.shape(1)}, "dy", device, dtype);
    const double u = dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
    const Textbook expected(s, to_host(x), to_host(dy), u, dtype == DType::bf16 ? u : 0);
    const Outcome got = attend(s, x, dy);
    INFO(dtype << ' ' << s.batch << ' ' << s.time << ' ' << s.heads << ' ' << s.size);
    CHECK(worst(got.y, expected.y) <= 1);
    CHECK(worst(got.dqkv, expected.dqkv) <= 1);
  };
  for (Sizes s : all_sizes)
    for (DType dtype : {DType::f32, DType::bf16})
      if (capability == 80 || (s.size == 64 && dtype == DType::bf16)) check(s, dtype);
  for (Sizes s : tensor_core_sizes)
    if (capability == 80 || s.size == 64) check(s, DType::bf16);
}

TEST_CASE("backend attention: the same bits in every order of threads") {
  for (auto [s, dtype] : {std::pair{Sizes{1, 100, 2, 32}, DType::f32},
                          {{1, 100, 2, 32}, DType::bf16},
                          {{1, 150, 1, 64}, DType::bf16},
                          {{1, 70, 1, 128}, DType::bf16}}) {
    std::vector<Numbers> results;
    for (Order order : all_orders) {
      Machine machine({.order = order, .schedule = QueueSchedule::lazy});
      const Outcome got = attend(s, dtype, strict_device());
      results.push_back(to_host(got.y));
      const Numbers gradients = to_host(got.dqkv);
      results.back().insert(results.back().end(), gradients.begin(), gradients.end());
    }
    INFO(dtype << ' ' << s.time << ' ' << s.size);
    const bool same = results[1] == results[0] && results[2] == results[0];
    CHECK(same);
  }
}

TEST_CASE("backend attention: values at any address") {
  Machine machine;
  const DevicePtr device = cuda_device();
  const Sizes s{1, 20, 2, 16};
  const Tensor all = uniform_tensor({{1 + s.shape(3).numel()}}, "x", device, DType::bf16);
  const Tensor x = all.window(1, s.shape(3));  // at an address that tensor cores can't take
  const Tensor dy = uniform_tensor({s.shape(1)}, "dy", device, DType::bf16);
  const Textbook expected(s, to_host(x), to_host(dy), 0x1p-8, 0);
  const Outcome got = attend(s, x, dy);
  CHECK(worst(got.y, expected.y) <= 1);
  CHECK(worst(got.dqkv, expected.dqkv) <= 1);
}

TEST_CASE("backend attention: large scores do not overflow") {
  Machine machine;
  const DevicePtr device = cuda_device();
  for (DType dtype : {DType::f32, DType::bf16})
    for (double value : to_host(attention(full({1, 70, 3 * 16}, 1000, dtype, device), 1)))
      CHECK(std::abs(value - 1000) <= 1000 * 0x1p-8);
}
