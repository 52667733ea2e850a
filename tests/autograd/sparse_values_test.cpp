// The largest values: the k-th magnitude and the choice of elements against sorting.
#include <cstring>
#include <limits>
#include <numeric>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

namespace {

using Indices = std::vector<std::int32_t>;

/// A message and what it says.
struct Sparse {
  Tensor bytes;
  Selected selected;
  Indices index;
  std::vector<float> value;
};

Sparse select(const Tensor& x, Selection which, std::int64_t slots) {
  Sparse s{empty({slots * (4 + size_of(x.dtype()))}, DType::u8, x.device()), {}, {}, {}};
  s.selected = x.backend().select(x, which, s.bytes);
  std::vector<std::uint8_t> host(s.bytes.numel());
  x.backend().copy_to_host(s.bytes, host.data());
  s.index.resize(slots);
  std::memcpy(s.index.data(), host.data(), 4 * slots);
  Tensor values(s.bytes.storage(), 4 * slots / size_of(x.dtype()), {slots}, x.dtype());
  for (double v : to_host(values)) s.value.push_back(static_cast<float>(v));
  return s;
}

/// Magnitudes are few, so that many are equal.
Tensor with_ties(std::int64_t n, DType dtype) {
  std::vector<float> values(n);
  for (std::int64_t i = 0; i < n; ++i) {
    auto size = static_cast<float>(uniform_integer(RandomKey(1, "size"), i, n / 4 + 1));
    values[i] = (i % 3 ? 1 : -1) * size / 16;
  }
  return floats(values, {n}, cpu_device(), dtype);
}

/// Indices by magnitude, ties by index.
Indices by_magnitude(const Numbers& x) {
  Indices order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return std::abs(x[a]) > std::abs(x[b]); });
  return order;
}

const std::vector<DType> types{DType::f32, DType::bf16};

}  // namespace

TEST_CASE("sparse: the k-th magnitude is that of the sorted values", "[sparse]") {
  for (DType dtype : types)
    for (std::int64_t n : {1, 2, 17, 1000, 70001}) {
      Tensor few = with_ties(n, dtype), many = empty_like(few);
      few.backend().fill_normal(RandomKey(2, "many"), 0, 1e-20, many);
      for (const Tensor& x : {few, many}) {
        Numbers values = to_host(x);
        Indices order = by_magnitude(values);
        for (std::int64_t k : {std::int64_t{1}, n / 100 + 1, n / 2 + 1, n}) {
          double least = std::abs(values[order[k - 1]]);
          std::int64_t equal = 0;
          for (std::int64_t i = 0; i < k; ++i) equal += std::abs(values[order[i]]) == least;
          Magnitude found = x.backend().magnitude(x, k);
          CHECK(found.value == least);
          CHECK(found.equal == equal);
        }
      }
    }
}

TEST_CASE("sparse: the largest k are chosen, ties by the lower index", "[sparse]") {
  for (DType dtype : types)
    for (std::int64_t n : {1, 17, 1000, 70001})
      for (std::int64_t k : {std::int64_t{1}, n / 10 + 1, n}) {
        Tensor x = with_ties(n, dtype);
        Numbers values = to_host(x);
        Indices expected = by_magnitude(values);
        expected.resize(k);
        std::sort(expected.begin(), expected.end());
        Magnitude least = x.backend().magnitude(x, k);
        Sparse s = select(x, {least.value, least.equal}, k);
        INFO(dtype << ", " << k << " of " << n);
        bool indices = s.index == expected, same = true;
        CHECK(indices);
        for (std::int64_t i = 0; i < k; ++i) same &= s.value[i] == values[s.index[i]];
        CHECK(same);
        CHECK(s.selected.finite);
        CHECK(s.selected.left == -1);
      }
}

TEST_CASE("sparse: slots fill from the first element on, and round", "[sparse]") {
  Tensor x = floats({5, 0, -5, 5, 1, 5}, {6}, cpu_device());
  Sparse all = select(x, {2, 6, 3}, 5);
  CHECK(all.index == Indices{3, 5, 0, 2, -1});
  CHECK(all.value == std::vector<float>{5, 5, 5, -5, 0});
  CHECK(all.selected.left == -1);
  Sparse some = select(x, {2, 6, 3}, 3);
  CHECK(some.index == Indices{3, 5, 0});
  CHECK(some.selected.left == 2);
  Sparse equal = select(x, {5, 2, 3}, 3);  // two of those that are equal to the threshold
  CHECK(equal.index == Indices{3, 5, -1});
  CHECK(equal.selected.left == -1);
}

TEST_CASE("sparse: values return to their places, among zeros", "[sparse]") {
  for (DType dtype : types) {
    Tensor x = floats({5, 0, -5, 5, 1, 5}, {6}, cpu_device(), dtype),
           y = full({6}, 7, dtype, x.device());
    Sparse s = select(x, {2, 6, 3}, 5);
    x.backend().scatter(s.bytes, y);
    CHECK(to_host(y) == Numbers{5, 0, -5, 5, 0, 5});
    Tensor small = zeros({3}, dtype, x.device());
    CHECK_THROWS_WITH(x.backend().scatter(s.bytes, small), Contains("element 3 of 3"));
    std::memcpy(s.bytes.raw() + 4, s.bytes.raw(), 4);
    CHECK_THROWS_WITH(x.backend().scatter(s.bytes, y), Contains("two values for element 3"));
  }
}

TEST_CASE("sparse: the number of threads changes nothing", "[sparse]") {
  Tensor x = with_ties(500003, DType::f32);
  std::vector<Indices> results;
  int before = compute_threads();
  for (int threads : {1, 2, 3}) {
    set_compute_threads(threads);
    Magnitude least = x.backend().magnitude(x, 5000);
    results.push_back(select(x, {least.value, least.equal, 1234}, 5000).index);
  }
  set_compute_threads(before);
  bool two = results[1] == results[0], three = results[2] == results[0];
  CHECK(two);
  CHECK(three);
}

TEST_CASE("sparse: a value that is not finite is reported", "[sparse]") {
  for (DType dtype : types)
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
      for (std::int64_t at : {0, 4097, 9999}) {
        std::vector<float> values(10000, 1);
        values[at] = bad;
        Tensor x = floats(values, {10000}, cpu_device(), dtype);
        CHECK(std::isinf(x.backend().magnitude(x, 10000).value));
        CHECK_FALSE(select(x, {2, 0}, 10).selected.finite);
      }
}
