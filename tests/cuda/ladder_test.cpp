// The rungs of the ladder against f64, in every order of threads.
#include "cuda/ladder/ladder.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace paragrad;
using namespace paragrad::tests;
using namespace paragrad::cuda::ladder;

namespace {

std::vector<float> numbers(int count, int seed) {
  std::vector<float> result(count);
  for (int i = 0; i < count; ++i) result[i] = std::sin(float(seed + i * 7 % 1009));
  return result;
}

/// Sums of k products in f32 are off by at most about k roundings of the magnitudes' sum.
void check_product(void (*matmul)(const Product&, cudaStream_t), int m, int n, int k) {
  std::vector<float> a = numbers(m * k, 1), b = numbers(k * n, 2);
  DeviceArray<float> da(a), db(b), dc(m * n);
  matmul({da, db, dc, m, n, k}, nullptr);
  std::vector<float> c = dc.values();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (int l = 0; l < k; ++l) {
        double product = double(a[i * k + l]) * b[l * n + j];
        sum += product;
        magnitude += std::abs(product);
      }
      REQUIRE(std::abs(c[i * n + j] - sum) <= (k + 1) * std::ldexp(magnitude, -24));
    }
}

/// Means and variances are sums of `width` numbers up to about 1, each off by at most about `width`
/// roundings; normalised values are up to sqrt(width) and take their errors.
void check_norm(void (*layer_norm)(const LayerNorm&, cudaStream_t), int rows, int width) {
  std::vector<float> x = numbers(rows * width, 3), weight = numbers(width, 4);
  std::vector<float> bias = numbers(width, 5);
  const float epsilon = 1e-5f;
  DeviceArray<float> dx(x), dweight(weight), dbias(bias), dy(rows * width);
  layer_norm({dx, dweight, dbias, dy, rows, width, epsilon}, nullptr);
  std::vector<float> y = dy.values();
  for (int r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (int i = 0; i < width; ++i) mean += x[r * width + i] / double(width);
    for (int i = 0; i < width; ++i) variance += std::pow(x[r * width + i] - mean, 2) / width;
    double deviation = std::sqrt(variance + epsilon);
    double bound = std::ldexp(4.0 * (width + 8), -24) * (1 + 1 / deviation) * (1 + 1 / deviation);
    for (int i = 0; i < width; ++i) {
      double expected = (x[r * width + i] - mean) / deviation * weight[i] + bias[i];
      REQUIRE(std::abs(y[r * width + i] - expected) <= bound);
    }
  }
}

}  // namespace

TEST_CASE("the ladder's products agree with f64") {
  for (Order order : all_orders) {
    Machine machine({.order = order});
    for (auto matmul : {matmul_plain, matmul_tiled}) {
      check_product(matmul, 1, 1, 1);
      check_product(matmul, 16, 16, 16);
      check_product(matmul, 17, 35, 50);
    }
  }
}

TEST_CASE("the ladder's layer norms agree with f64") {
  for (Order order : all_orders) {
    Machine machine({.order = order});
    for (auto layer_norm : {layer_norm_plain, layer_norm_warp}) {
      check_norm(layer_norm, 1, 1);
      check_norm(layer_norm, 5, 32);
      check_norm(layer_norm, 131, 77);
    }
  }
}
