// Random numbers: Philox's known answers, no dependence on how work is cut, right distributions.
#include "autograd/random.h"

#include <set>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

TEST_CASE("random: Philox4x32-10 gives the known answers", "[random]") {
  // The first is from the authors' library (Random123, kat_vectors). Its others use counter words
  // that are 0 here; these came from a second implementation that gave all of the library's.
  struct {
    std::uint32_t low, high;
    std::uint64_t counter;
    std::array<std::uint32_t, 4> expected;
  } cases[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {0, 0, 1, {0xf8e4cca4, 0x5cb200db, 0xb1a574eb, 0x097eff67}},
      {0, 0, 1ull << 32, {0x6ad0c5ec, 0xea236249, 0x73a459f5, 0x074944b3}},
      {~0u, ~0u, ~0ull, {0x4d18d7d2, 0x430ac65a, 0xbd2fa22a, 0x0afae10d}},
      {0xa4093822,
       0x299f31d0,
       0x85a308d3243f6a88,
       {0xe69c9c31, 0xb5a3d762, 0xe733bfc1, 0x341a787c}},
  };
  for (const auto& c : cases) {
    RandomKey key;
    key.low = c.low;
    key.high = c.high;
    CHECK(philox(key, c.counter) == c.expected);
    for (std::uint64_t i = 0; i < 4 && c.counter < 1ull << 60; ++i)
      CHECK(random_bits(key, 4 * c.counter + i) == c.expected[i]);
  }
}

TEST_CASE("random: seed and name both choose the sequence", "[random]") {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (std::uint64_t seed : {0ull, 1ull, 2ull, 1ull << 32, ~0ull})
    for (const char* name : {"", "a", "b", "ab", "ba", "h.0.attn.c_attn.weight"}) {
      RandomKey key(seed, name);
      keys.insert({key.low, key.high});
    }
  CHECK(keys.size() == 30);
}

TEST_CASE("random: a fill is element by element the function of its index", "[random]") {
  RandomKey key(5, "fill");
  for (std::int64_t n : {1, 7, 33, 5000}) {
    Tensor x = empty({n}, DType::f32, cpu_device()), y = empty_like(x);
    x.backend().fill_uniform(key, 0, 1, x);
    x.backend().fill_normal(key, 0, 1, y);
    Numbers u = to_host(x), g = to_host(y);
    int wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) wrong += u[i] != uniform(key, i) || g[i] != normal(key, i);
    CHECK(wrong == 0);
  }
}

#if PLANGRAD_OPENMP
TEST_CASE("random: the number of threads changes nothing", "[random]") {
  Tensor x = empty({100001}, DType::f32, cpu_device());
  std::vector<Numbers> results;
  int before = compute_threads();
  for (int threads : {1, 2, 3}) {
    set_compute_threads(threads);
    x.backend().fill_normal(RandomKey(1, "x"), 0, 1, x);
    x.backend().dropout(x, 0.5, RandomKey(2, "x"), x);
    results.push_back(to_host(x));
  }
  set_compute_threads(before);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}
#endif

TEST_CASE("random: uniform and normal have their moments", "[random]") {
  // A sample mean of n numbers of deviation s is off by s / sqrt(n), rarely by five times that.
  constexpr int n = 100000;
  struct Moments {
    double mean, variance, fourth;  // fourth: E (x - mean)^4
    double (*draw)(RandomKey, std::uint64_t);
  };
  const Moments cases[] = {
      {0.5, 1 / 12., 1 / 80., [](RandomKey k, std::uint64_t i) { return double(uniform(k, i)); }},
      {0, 1, 3, [](RandomKey k, std::uint64_t i) { return double(normal(k, i)); }},
  };
  for (const Moments& m : cases)
    for (std::uint64_t seed : {0, 1, 2}) {
      RandomKey key(seed, "moments");
      double sum = 0, squares = 0, products = 0, before = 0;
      for (int i = 0; i < n; ++i) {
        double d = m.draw(key, i) - m.mean;
        sum += d;
        squares += d * d;
        products += d * before;
        before = d;
      }
      double root = std::sqrt(static_cast<double>(n));
      CHECK(std::abs(sum / n) < 5 * std::sqrt(m.variance) / root);
      CHECK(std::abs(squares / n - m.variance) <
            5 * std::sqrt(m.fourth - m.variance * m.variance) / root);
      CHECK(std::abs(products / n) < 5 * m.variance / root);  // neighbours are unrelated
    }
}

TEST_CASE("random: ranges are kept", "[random]") {
  RandomKey key(9, "range");
  CHECK(to_uniform(0) == 0);
  CHECK(to_uniform(~0u) == 1 - 0x1p-24f);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(uniform_integer(key, i, 7));
  // Binomial: the deviation of each count is sqrt(70000 * 1/7 * 6/7) = 93.
  for (int count : counts) CHECK(std::abs(count - 10000) < 5 * 93);
  CHECK(uniform_integer(key, 3, 1) == 0);
}
