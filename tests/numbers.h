// Short names for tensors of given numbers, for tests.
#pragma once

#include <vector>

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

}  // namespace plangrad::tests
