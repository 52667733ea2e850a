// The rungs of the ladder against f64, in every order of threads.
#include "cuda/ladder/ladder.h"

#include <algorithm>
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

float widened(float x) { return x; }
float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
std::vector<T> numbers_of(int count, int seed) {
  std::vector<T> result(count);
  std::vector<float> wide = numbers(count, seed);
  if constexpr (sizeof(T) == sizeof(float))
    result = wide;
  else
    std::transform(wide.begin(), wide.end(), result.begin(), __float2bfloat16);
  return result;
}

/// Sums of k products in f32 are off by at most about k roundings of the magnitudes' sum. The
/// matrices begin `skip` elements behind an address that is aligned for all.
template <class T>
void check_product(void (*matmul)(const ProductOf<T>&, cudaStream_t), int m, int n, int k,
                   int skip = 0) {
  INFO("(" << m << ',' << k << ") by (" << k << ',' << n << ')');
  std::vector<T> a = numbers_of<T>(skip + m * k, 1), b = numbers_of<T>(skip + k * n, 2);
  DeviceArray<T> da(a), db(b);
  DeviceArray<float> dc(m * n);
  matmul({da + skip, db + skip, dc, m, n, k}, nullptr);
  std::vector<float> c = dc.values();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (int l = 0; l < k; ++l) {
        double product = double(widened(a[skip + i * k + l])) * widened(b[skip + l * n + j]);
        sum += product;
        magnitude += std::abs(product);
      }
      // Not a check of each element: Catch2 takes longer for those than the kernels.
      if (!(std::abs(c[i * n + j] - sum) <= (k + 1) * std::ldexp(magnitude, -24)))
        FAIL("element (" << i << ',' << j << "): expected " << sum << ", got " << c[i * n + j]);
    }
  SUCCEED();
}

/// One element; whole tiles; sizes past every border of tiles, aligned to 16 bytes and not; more
/// than two tiles of each kind.
template <class T>
void check_products(void (*matmul)(const ProductOf<T>&, cudaStream_t)) {
  check_product(matmul, 1, 1, 1);
  check_product(matmul, 128, 128, 32);
  check_product(matmul, 17, 35, 50);
  check_product(matmul, 129, 131, 33);
  check_product(matmul, 136, 144, 72);
  check_product(matmul, 136, 144, 72, 1);
  check_product(matmul, 1, 257, 3);
}

/// Means and variances are sums of `width` numbers up to about 1, each off by at most about `width`
/// roundings; normalised values are up to sqrt(width) and take their errors.
void check_norm(void (*layer_norm)(const LayerNorm&, cudaStream_t), int rows, int width,
                int skip = 0) {
  std::vector<float> x = numbers(skip + rows * width, 3), weight = numbers(width, 4);
  std::vector<float> bias = numbers(width, 5);
  const float epsilon = 1e-5f;
  DeviceArray<float> dx(x), dweight(weight), dbias(bias), dy(rows * width);
  layer_norm({dx + skip, dweight, dbias, dy, rows, width, epsilon}, nullptr);
  std::vector<float> y = dy.values();
  x.erase(x.begin(), x.begin() + skip);
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
    for (auto matmul : {matmul_plain, matmul_tiled, matmul_registers, matmul_async})
      check_products(matmul);
    check_products(matmul_tensor_cores);
  }
}

TEST_CASE("the ladder's layer norms agree with f64") {
  for (Order order : all_orders) {
    Machine machine({.order = order});
    for (auto layer_norm : {layer_norm_plain, layer_norm_warp, layer_norm_registers})
      for (auto [rows, width] :
           {std::pair{1, 1}, {5, 32}, {131, 77}, {6, 128}, {3, 132}, {3, 2048}})
        for (int skip : {0, 1}) check_norm(layer_norm, rows, width, skip);
  }
}

TEST_CASE("rows that don't fit the registers of a warp are refused") {
  DeviceArray<float> row(2049);
  CHECK_THROWS_WITH(layer_norm_registers({row, row, row, row, 1, 2049, 1e-5f}, nullptr),
                    Contains("at most 2048") && Contains("use layer_norm_warp"));
}
