// All ranks of a group that sums its gradients as thin factors, one after the other; and plain
// matrices in f64, to check them by.
#pragma once

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "parallel/codecs/low_rank.h"
#include "tests/numbers.h"

namespace plangrad::tests {

using namespace parallel;

inline CodecSpec low_rank_spec(int rank) { return {.name = "lowrank", .rank = rank}; }
inline CodecSpec pca_spec(int rank, int period) {
  return {.name = "pca", .rank = rank, .period = period};
}

inline ParameterList parameter_list(const std::vector<std::pair<std::string, Shape>>& shapes) {
  ParameterList list;
  for (const auto& [name, shape] : shapes) list.add(name, shape, Init::constant(0));
  return list;
}

inline Tensor copy_of(const Tensor& x) {
  Tensor y = empty_like(x);
  x.backend().copy(x, y);
  return y;
}

inline FactorState copy_of(const FactorState& state) {
  return {copy_of(state.residual), copy_of(state.factors), state.uses};
}

/// Gives a codec the values of a state.
inline void restore(const FactorState& state, LowRank& low_rank) {
  state.residual.backend().copy(state.residual, low_rank.state().residual);
  state.factors.backend().copy(state.factors, low_rank.state().factors);
  low_rank.state().uses = state.uses;
}

/// Elements that a rank gives to the two sums of a use. No second sum where `second` is 0.
struct FactorCounts {
  std::int64_t first = 0, second = 0;
};

struct FactorWorld {
  std::vector<std::unique_ptr<LowRank>> ranks;
  FactorCounts sent;  ///< by each rank, in the last use
  int step = 0;

  FactorWorld(int count, const CodecSpec& spec, const ParameterList& parameters,
              const DevicePtr& device = cpu_device()) {
    for (int r = 0; r < count; ++r) ranks.push_back(make_low_rank(spec, parameters, 7, device));
  }

  /// The sum that each rank gets for its gradient.
  std::vector<Tensor> use(const std::vector<Tensor>& gradients) {
    std::vector<Tensor> first, second, result;
    ++step;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      first.push_back(ranks[r]->first_factors(gradients[r], step));
    sent.first = all_reduce(first);
    for (auto& rank : ranks) second.push_back(rank->second_factors());
    sent.second = second[0].defined() ? all_reduce(second) : 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      result.push_back(full(gradients[r].shape(), NAN, DType::f32, gradients[r].device()));
      ranks[r]->finish(result.back());
    }
    return result;
  }

 private:
  /// In rank order. Returns the number of elements.
  static std::int64_t all_reduce(const std::vector<Tensor>& buffers) {
    Tensor sum = copy_of(buffers[0]);
    for (std::size_t r = 1; r < buffers.size(); ++r) sum.backend().accumulate(buffers[r], sum);
    for (const Tensor& buffer : buffers) sum.backend().copy(sum, buffer);
    return sum.numel();
  }
};

/// Numbers by (seed, name), as a flat gradient.
inline Tensor random_gradient(std::int64_t count, int seed, const DevicePtr& device = cpu_device(),
                              double scale = 1) {
  Tensor x = empty({count}, DType::f32, device);
  x.backend().fill_normal(RandomKey(seed, "gradient"), 0, scale, x);
  return x;
}

inline Numbers sum_of(const std::vector<Tensor>& tensors) {
  Numbers sum(tensors[0].numel());
  for (const Tensor& x : tensors) {
    Numbers values = to_host(x);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

inline double norm(const Numbers& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

inline double distance(const Numbers& x, const Numbers& y) {
  Numbers difference(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) difference[i] = x[i] - y[i];
  return norm(difference);
}

/// Row-major.
struct Matrix {
  std::size_t rows, columns;
  Numbers values;

  /// Zeros, unless there are values.
  Matrix(std::size_t r, std::size_t c, Numbers v = {}) : rows(r), columns(c), values(std::move(v)) {
    values.resize(r * c);
  }

  double& operator()(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

inline Matrix transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) result(j, i) = a(i, j);
  return result;
}

inline Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows, b.columns);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < a.columns; ++k)
      for (std::size_t j = 0; j < b.columns; ++j) result(i, j) += a(i, k) * b(k, j);
  return result;
}

/// Gram and Schmidt's columns, twice, in the textbook's form.
inline Matrix orthonormal(Matrix x) {
  for (std::size_t c = 0; c < x.columns; ++c) {
    for (std::size_t k = 0; k < 2 * c; ++k) {
      double share = 0;
      for (std::size_t i = 0; i < x.rows; ++i) share += x(i, k % c) * x(i, c);
      for (std::size_t i = 0; i < x.rows; ++i) x(i, c) -= share * x(i, k % c);
    }
    double length = 0;
    for (std::size_t i = 0; i < x.rows; ++i) length += x(i, c) * x(i, c);
    for (std::size_t i = 0; i < x.rows; ++i) x(i, c) /= std::sqrt(length);
  }
  return x;
}

/// The distance of m from the nearest matrix of this rank, by a long power iteration.
inline double best_error(const Matrix& m, std::size_t rank) {
  Matrix q(m.columns, rank);
  for (std::size_t i = 0; i < q.values.size(); ++i) q.values[i] = std::cos(1.0 + 3.7 * i);
  for (int step = 0; step < 300; ++step)
    q = orthonormal(transposed(m) * orthonormal(m * orthonormal(q)));
  return distance(m.values, (m * q * transposed(q)).values);
}

}  // namespace plangrad::tests
