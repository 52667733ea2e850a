#include "tests/cuda/ladder_references.h"

#include <cmath>
#include <map>

#include "cuda/ladder/ladder.h"

namespace paragrad::tests {

namespace {

using cuda::ladder::Sizes;

Values product(const std::vector<Values>& in, const Sizes& sizes) {
  const auto [m, n, k] = sizes;
  Values c(std::size_t(m) * n);
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j) c[i * n + j] += in[0][i * k + l] * in[1][l * n + j];
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
    const double deviation = std::sqrt(variance + cuda::ladder::layer_norm_epsilon);
    for (int i = 0; i < width; ++i) row[i] = (row[i] - mean) / deviation * in[1][i] + in[2][i];
  }
  return y;
}

}  // namespace

const LadderReference& ladder_reference(const std::string& ladder) {
  static const std::map<std::string, LadderReference> all = {
      {"matmul",
       {product,
        {{1, 1, 1}, {128, 128, 32}, {17, 35, 50}, {129, 131, 33}, {136, 144, 72}, {1, 257, 3}}}},
      {"layer_norm", {layer_norm, {{1, 1}, {5, 32}, {131, 77}, {6, 128}, {3, 132}, {3, 2048}}}}};
  return all.at(ladder);
}

}  // namespace paragrad::tests
