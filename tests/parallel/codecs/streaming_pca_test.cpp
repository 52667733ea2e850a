// Streaming PCA: whole sums, coefficients between them, a basis that follows what is summed.
#include "parallel/codecs/low_rank.h"
#include "tests/catch.h"
#include "tests/parallel/support/factor_world.h"

using namespace plangrad::tests;

namespace {

ParameterList with_bias() { return parameter_list({{"weight", {48, 40}}, {"bias", {40}}}); }
constexpr std::int64_t elements = 48 * 40 + 40;

Matrix basis(const FactorWorld& world, std::size_t rank) {
  return transposed(Matrix(rank, 40, to_host(world.ranks[0]->state().factors)));
}

/// Singular values 1, 1/2, 1/3, ... in directions by `seed`, and a bias.
Tensor decaying(int seed) {
  Matrix left = orthonormal(Matrix(48, 40, to_host(random_gradient(48 * 40, seed))));
  Matrix right = orthonormal(Matrix(40, 40, to_host(random_gradient(40 * 40, seed + 1))));
  for (std::size_t i = 0; i < 40; ++i)
    for (std::size_t j = 0; j < 40; ++j) right(i, j) /= static_cast<double>(i + 1);
  Numbers values = (left * right).values;
  values.resize(elements, 0.25);
  return floats({values.begin(), values.end()}, {elements}, cpu_device());
}

Matrix weight_of(const Tensor& gradient) {
  return Matrix(48, 40, to_host(gradient.window(0, {48 * 40})));
}

}  // namespace

TEST_CASE("streaming pca: whole sums every period, coefficients between", "[low_rank]") {
  FactorWorld world(2, pca_spec(3, 4), with_bias());
  for (int use = 0; use < 9; ++use) {
    Tensor a = random_gradient(elements, use), b = random_gradient(elements, 20 + use);
    std::vector<Tensor> wanted{a, b, copy_of(world.ranks[0]->state().residual),
                               copy_of(world.ranks[1]->state().residual)};
    Matrix q = basis(world, 3);
    Numbers got = to_host(world.use({a, b})[1]), sum = sum_of(wanted);
    CHECK(world.sent.second == 0);
    if (use % 4 == 0) {
      CHECK(world.sent.first == elements);
      CHECK(distance(got, sum) <= 1e-6 * norm(sum));
      for (auto& rank : world.ranks) CHECK(norm(to_host(rank->state().residual)) == 0);
    } else {
      CHECK(world.sent.first == 3 * 48 + 40);
      Matrix all(48, 40, Numbers(sum.begin(), sum.begin() + 48 * 40));
      Numbers expected = (all * q * transposed(q)).values;
      expected.insert(expected.end(), sum.begin() + 48 * 40, sum.end());
      CHECK(distance(got, expected) <= 1e-5 * norm(expected));
      CHECK(q.values == basis(world, 3).values);
      std::vector<Tensor> left;
      for (auto& rank : world.ranks) left.push_back(rank->state().residual);
      Numbers missing = sum_of(left), both(elements);
      for (std::size_t i = 0; i < both.size(); ++i) both[i] = got[i] + missing[i];
      CHECK(distance(both, sum) <= 1e-5 * norm(sum));
    }
  }
}

TEST_CASE("streaming pca: the basis follows the sums", "[low_rank]") {
  const std::size_t rank = 4;
  FactorWorld world(1, pca_spec(rank, 2), with_bias());
  for (int seed : {1, 7}) {  // the second begins from the basis of the first
    Tensor gradient = decaying(seed);
    Matrix m = weight_of(gradient);
    double best = best_error(m, rank);
    std::vector<double> errors;
    for (int round = 0; round < 12; ++round) {
      Matrix before = basis(world, rank);
      errors.push_back(distance(m.values, (m * before * transposed(before)).values));
      world.use({gradient});
      FactorState state = copy_of(world.ranks[0]->state());
      gradient.backend().fill(0, state.residual);
      ++state.uses;  // the next whole sum
      restore(state, *world.ranks[0]);
    }
    CHECK(errors[0] > 1.5 * best);
    CHECK(errors[1] < 1.1 * best);
    CHECK(errors.back() < 1.001 * best);
    CHECK(errors.back() >= best * (1 - 1e-6));
    Matrix q = basis(world, rank), product = transposed(q) * q;
    for (std::size_t i = 0; i < rank; ++i)
      for (std::size_t j = 0; j < rank; ++j) CHECK(std::abs(product(i, j) - (i == j)) < 1e-6);
  }
}

TEST_CASE("streaming pca: a matrix in the basis's space is summed to rounding", "[low_rank]") {
  FactorWorld world(3, pca_spec(4, 100), with_bias());
  Numbers v = to_host(random_gradient(4 * 40, 2));
  for (int use = 0; use < 4; ++use) {
    std::vector<Tensor> gradients;
    for (int r = 0; r < 3; ++r) {
      Numbers rows = to_host(random_gradient(48 * 4, 10 * use + r));
      Numbers values = (Matrix(48, 4, rows) * Matrix(4, 40, v)).values;
      values.resize(elements, r);
      gradients.push_back(floats({values.begin(), values.end()}, {elements}, cpu_device()));
    }
    Numbers sum = sum_of(gradients);
    CHECK(distance(to_host(world.use(gradients)[2]), sum) <= 1e-5 * norm(sum));
    CHECK(world.sent.first == (use == 0 ? elements : 48 * 4 + 40));
  }
}
