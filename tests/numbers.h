// Short names for tensors of given numbers, for tests.
#pragma once

#include <algorithm>
#include <cmath>

#include "autograd/error.h"
#include "autograd/tensor.h"

namespace plangrad::tests {

using namespace autograd;

/// What to_host returns.
using Numbers = std::vector<double>;

inline Tensor floats(const std::vector<float>& values, Shape shape, const DevicePtr& device,
                     DType dtype = DType::f32) {
  return from_host(values, std::move(shape), device, dtype);
}
inline Tensor doubles(const Numbers& values, Shape shape, const DevicePtr& device) {
  return from_host(values, std::move(shape), device);
}
inline Tensor integers(const std::vector<std::int32_t>& values, Shape shape,
                       const DevicePtr& device) {
  return from_host(values, std::move(shape), device);
}

/// The largest difference between the numbers of two lists, NaN where a difference is.
/// throws: Error if the lists are not of one length
inline double largest_difference(const Numbers& a, const Numbers& b) {
  PG_CHECK(a.size() == b.size(), "one list has ", a.size(), " numbers, the other ", b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace plangrad::tests
