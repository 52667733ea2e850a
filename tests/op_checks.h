// What every operation must satisfy: gradients that are derivatives, and errors within bounds.
// Not here: values, which each operation's own test and the reference files have.
#pragma once

#include "tests/op_cases.h"

namespace plangrad::tests {

/// Values uniform in [low, high), rounded to `dtype`, as a tensor of it; `name` tells two apart.
Tensor uniform_tensor(const OpInput& input, const std::string& name, const DevicePtr& device,
                      DType dtype = DType::f64);

/// The result of an operation, then its gradients, as numbers.
using OpResults = std::vector<std::vector<double>>;
OpResults run_op(const OpCase& op, DType dtype, const DevicePtr& device);

/// Every gradient against central differences, in f64.
/// throws: Error that names case, input and element
void check_op_gradients(const OpCase& op, const DevicePtr& device);

/// Compares `dtype` with f64 on the same inputs, within the bounds of the case: u = 2^-24 for its
/// roundings in f32. A result in bf16 is rounded once more, by at most 2^-8 of itself; and so is
/// each tensor that it was computed from, by as much of the sum of terms. Copies must be equal.
/// A device without f64 is compared with another.
/// throws: Error that names case, tensor and element
void check_op_precision(const OpCase& op, DType dtype, const DevicePtr& device,
                        const DevicePtr& device_of_f64);
inline void check_op_precision(const OpCase& op, DType dtype, const DevicePtr& device) {
  check_op_precision(op, dtype, device, device);
}

/// A backward in two parts against a whole one, bit for bit: all inputs are weights, or all but the
/// first.
/// throws: Error that names case and input
void check_op_parts(const OpCase& op, DType dtype, const DevicePtr& device);

/// All of it, in f64, f32 and bf16.
void check_op(const OpCase& op, const DevicePtr& device);

}  // namespace plangrad::tests
