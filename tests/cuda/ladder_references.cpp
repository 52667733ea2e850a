#include "tests/cuda/ladder_references.h"

#include <cmath>
#include <map>

#include "tutorials/kernels/ladder.h"

namespace plangrad::tests {

namespace {

using cuda::kernels::Sizes;

Values product(const std::vector<Values>& in, const Sizes& sizes) {
  const auto [m, n, k] = sizes;
  Values c(std::size_t(m) * n);
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j) c[i * n + j] += in[0][i * k + l] * in[1][l * n + j];
  return c;
}

Values epilogue(const std::vector<Values>& in, const Sizes& sizes) {
  Values c = product(in, sizes);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const double x = c[i] + in[2][i % sizes[1]];
    c[i] = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return c;
}

Values layer_norm(const std::vector<Values>& in, const Sizes& sizes) {
  const int rows = sizes[0], width = sizes[1];
  Values y = in[0];
  for (int r = 0; r < rows; ++r) {
    double* row = y.data() + r * width;
    double mean = 0, variance = 0;
    for (int i = 0; i < width; ++i) mean += row[i] / width;
    for (int i = 0; i < width; ++i) variance += std::pow(row[i] - mean, 2) / width;
    const double deviation = std::sqrt(variance + cuda::kernels::layer_norm_epsilon);
    for (int i = 0; i < width; ++i) row[i] = (row[i] - mean) / deviation * in[1][i] + in[2][i];
  }
  return y;
}

Values softmax(const std::vector<Values>& in, const Sizes& sizes) {
  const auto [rows, width, none] = sizes;
  Values y = in[0];
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int i = 0; i < width; ++i) sum += std::exp(y[r * width + i]);
    for (int i = 0; i < width; ++i) y[r * width + i] = std::exp(y[r * width + i]) / sum;
  }
  return y;
}

Values column_sum(const std::vector<Values>& in, const Sizes& sizes) {
  Values y(sizes[1]);
  for (std::size_t i = 0; i < in[0].size(); ++i) y[i % y.size()] += in[0][i];
  return y;
}

Values attention(const std::vector<Values>& in, const Sizes& sizes) {
  const auto [heads, time, none] = sizes;
  constexpr int D = cuda::kernels::Attention::size;
  Values y(in[0].size());
  for (int query = 0; query < heads * time; ++query) {
    Values scores(time);
    const int head = query / time * time;
    for (int key = 0; key < time; ++key)
      for (int i = 0; i < D; ++i)
        scores[key] += in[0][query * D + i] * in[1][(head + key) * D + i] / 8;
    const Values shares = softmax({scores}, {1, time});
    for (int key = 0; key < time; ++key)
      for (int i = 0; i < D; ++i) y[query * D + i] += shares[key] * in[2][(head + key) * D + i];
  }
  return y;
}

Values attention_backward(const std::vector<Values>& in, const Sizes& sizes) {
  const auto [heads, time, none] = sizes;
  constexpr int D = cuda::kernels::Attention::size;
  const std::size_t all = in[0].size();
  Values gradients(3 * all);
  auto dot = [&](int a, int row, int b, int other) {
    double sum = 0;
    for (int i = 0; i < D; ++i) sum += in[a][row * D + i] * in[b][other * D + i];
    return sum;
  };
  for (int query = 0; query < heads * time; ++query) {
    Values scores(time), dshares(time);
    const int head = query / time * time;
    for (int key = 0; key < time; ++key) scores[key] = dot(0, query, 1, head + key) / 8;
    const Values shares = softmax({scores}, {1, time});
    double y_dy = 0;
    for (int key = 0; key < time; ++key)
      y_dy += shares[key] * (dshares[key] = dot(3, query, 2, head + key));
    for (int key = 0; key < time; ++key)
      for (int i = 0; i < D; ++i) {
        const double slope = shares[key] * (dshares[key] - y_dy) / 8;
        const int at_query = query * D + i, at_key = (head + key) * D + i;
        gradients[at_query] += slope * in[1][at_key];
        gradients[all + at_key] += slope * in[0][at_query];
        gradients[2 * all + at_key] += shares[key] * in[3][at_query];
      }
  }
  return gradients;
}

}  // namespace

const LadderReference& ladder_reference(const std::string& ladder) {
  static const std::map<std::string, LadderReference> all = {
      // More steps than stages; more rows of tiles than a band has.
      {"matmul",
       {product,
        {{1, 1, 1}, {17, 35, 50}, {136, 144, 72}, {40, 48, 200}, {1030, 136, 8}, {1, 257, 3}}}},
      {"epilogue", {epilogue, {{17, 35, 50}, {40, 144, 200}}}},
      {"layer_norm", {layer_norm, {{1, 1}, {5, 32}, {131, 77}, {6, 128}, {3, 132}, {3, 2048}}}},
      {"softmax", {softmax, {{1, 1}, {5, 32}, {131, 77}, {6, 128}, {3, 132}, {3, 2048}}}},
      {"column_sum", {column_sum, {{1, 1}, {9, 31}, {128, 33}, {300, 136}}}},
      {"attention", {attention, {{1, 1}, {2, 70}, {1, 129}}}},
      {"attention_backward", {attention_backward, {{1, 1}, {2, 35}, {1, 70}}}}};
  return all.at(ladder);
}

}  // namespace plangrad::tests
