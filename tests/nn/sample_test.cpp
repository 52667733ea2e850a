// Sampling: temperature, top-k, and frequencies that are the probabilities.
#include "nn/text/vocabulary.h"

#include <limits>

#include "tests/catch.h"

using namespace plangrad::nn;
using plangrad::autograd::RandomKey;

namespace {

const std::vector<double> logits{0.3, -1.2, 2.1, 2.0, -40};
const RandomKey key(5, "sample");

/// softmax(logits / temperature) over the tokens of `among`.
std::vector<double> probabilities(double temperature, const std::vector<std::size_t>& among) {
  std::vector<double> p(logits.size(), 0.0);
  double sum = 0;
  for (std::size_t i : among) sum += p[i] = std::exp(logits[i] / temperature);
  for (double& x : p) x /= sum;
  return p;
}

/// Draws many tokens; each one's frequency must lie within 5 standard errors of its probability,
/// which for as many checks as here goes wrong by chance less than once in 10^5 seeds.
void check_frequencies(const SampleSettings& settings, const std::vector<double>& expected) {
  constexpr int draws = 20000;
  std::vector<int> count(logits.size(), 0);
  for (int i = 0; i < draws; ++i)
    ++count.at(static_cast<std::size_t>(
        sample_token(logits, settings, key, static_cast<std::uint64_t>(i))));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    CAPTURE(i, settings.temperature, settings.top_k);
    double p = expected[i], error = std::sqrt(p * (1 - p) / draws);
    CHECK(std::abs(static_cast<double>(count[i]) / draws - p) <= 5 * error);
  }
}

}  // namespace

TEST_CASE("tokens are as frequent as they are probable") {
  check_frequencies({1, 0}, probabilities(1, {0, 1, 2, 3, 4}));
  check_frequencies({0.5, 0}, probabilities(0.5, {0, 1, 2, 3, 4}));
  check_frequencies({3, 0}, probabilities(3, {0, 1, 2, 3, 4}));
}

TEST_CASE("top-k chooses among the k likeliest and no other") {
  check_frequencies({1, 1}, probabilities(1, {2}));
  check_frequencies({1, 2}, probabilities(1, {2, 3}));
  check_frequencies({2, 3}, probabilities(2, {0, 2, 3}));
  check_frequencies({2, 99}, probabilities(2, {0, 1, 2, 3, 4}));
}

TEST_CASE("of equally likely tokens, top-k takes k, the first ones") {
  const std::vector<double> equal(6, 0.25);
  std::vector<int> count(6, 0);
  for (std::uint64_t i = 0; i < 200; ++i)
    ++count[static_cast<std::size_t>(sample_token(equal, {1, 2}, key, i))];
  CHECK(count[0] > 50);
  CHECK(count[1] > 50);
  CHECK(count[0] + count[1] == 200);
  CHECK(sample_token(equal, {1, 1}, key, 0) == sample_token(equal, {0, 0}, key, 0));
}

TEST_CASE("temperature 0 takes the likeliest token, and a tiny one does as well") {
  for (std::uint64_t i = 0; i < 20; ++i) {
    CHECK(sample_token(logits, {0, 0}, key, i) == 2);
    CHECK(sample_token(logits, {1e-300, 0}, key, i) == 2);
  }
  CHECK(sample_token({-1e300, 1e300}, {1, 0}, key, 0) == 1);  // nothing overflows
}

TEST_CASE("the same key and index draw the same token, others draw anew") {
  std::vector<std::int32_t> one, two, other;
  for (std::uint64_t i = 0; i < 40; ++i) {
    one.push_back(sample_token(logits, {1, 0}, key, i));
    two.push_back(sample_token(logits, {1, 0}, key, i));
    other.push_back(sample_token(logits, {1, 0}, RandomKey(6, "sample"), i));
  }
  CHECK(one == two);
  CHECK(one != other);
  CHECK(one != std::vector<std::int32_t>(40, one[0]));
}

TEST_CASE("sampling refuses logits and settings that mean nothing") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = INFINITY;
  for (double temperature : {0.0, 1.0}) {
    CHECK_THROWS_WITH(sample_token({0, nan}, {temperature, 0}, key, 0), Contains("logit is nan"));
    CHECK_THROWS_WITH(sample_token({0, infinity}, {temperature, 0}, key, 0), Contains("is inf"));
    CHECK_THROWS_WITH(sample_token({}, {temperature, 0}, key, 0), Contains("no logits"));
  }
  CHECK_THROWS_WITH(sample_token(logits, {-1, 0}, key, 0), Contains("temperature"));
  CHECK_THROWS_WITH(sample_token(logits, {nan, 0}, key, 0), Contains("temperature"));
  CHECK_THROWS_WITH(sample_token(logits, {1, -1}, key, 0), Contains("top-k"));
}
