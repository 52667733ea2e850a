// On the host, in f64: the matrices are thin, N R^2 products each, and a basis that loses its right
// angles would lose gradients. A device's values are copied here and back: there is no kernel yet.
// Chapter 10.
#include "parallel/codecs/orthonormal.h"

#include <cmath>
#include <vector>

#include "autograd/backend.h"

namespace paragrad::parallel {

namespace {

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

double length(const double* a, std::int64_t count) { return std::sqrt(dot(a, a, count)); }

/// Takes the directions of the `known` rows before it out of `row`, one after the other.
void remove_known(double* row, std::int64_t known, std::int64_t count) {
  for (std::int64_t k = known; k > 0; --k) {
    const double* direction = row - k * count;
    double share = dot(direction, row, count);
    for (std::int64_t i = 0; i < count; ++i) row[i] -= share * direction[i];
  }
}

}  // namespace

// [snippet gram_schmidt]
void orthonormalize(const Tensor& x, RandomKey key) {
  const std::int64_t rows = x.size(0), count = x.size(1);
  PG_CHECK(rows <= count, "there are no ", rows, " orthonormal rows of ", count, " elements");
  std::vector<double> values = to_host(x);
  for (std::int64_t r = 0; r < rows; ++r) {
    double* row = values.data() + r * count;
    double before = length(row, count);
    remove_known(row, r, count);
    // Of a millionth f32 can't tell whether it was there. Longer rests stand at right angles to the
    // rows before within 1e-10, as f64 rounds.
    if (length(row, count) <= 1e-6 * before) {
      for (std::int64_t i = 0; i < count; ++i) row[i] = normal(key, r * count + i);
      remove_known(row, r, count);
    }
    double after = length(row, count);
    for (std::int64_t i = 0; i < count; ++i) row[i] /= after;
  }
  std::vector<float> rounded(values.begin(), values.end());
  x.backend().copy_from_host(rounded.data(), x);
}
// [end snippet]

}  // namespace paragrad::parallel
