#include "tests/op_checks.h"

#include <cmath>

#include "autograd/backend.h"
#include "autograd/gradcheck.h"

namespace paragrad::tests {

namespace {

double rounded(double value, DType dtype) {
  if (dtype == DType::f64) return value;
  float single = static_cast<float>(value);
  return dtype == DType::bf16 ? static_cast<float>(bf16(single)) : single;
}

/// How to run a case: in which type, on values rounded to which type, on absolute values or not.
struct Run {
  DType dtype, rounding;
  bool absolute = false;
};

Tensor draw(const OpInput& input, const std::string& name, const DevicePtr& device, Run how) {
  RandomKey key(7, name);
  std::vector<double> values(input.shape.numel());
  for (std::size_t i = 0; i < values.size(); ++i) {
    double value = input.low + (input.high - input.low) * uniform(key, i);
    values[i] = rounded(how.absolute ? std::abs(value) : value, how.rounding);
  }
  if (how.dtype == DType::f64) return from_host(values, input.shape, device);
  return from_host(std::vector<float>(values.begin(), values.end()), input.shape, device,
                   how.dtype);
}

OpResults run(const OpCase& op, const OpFunction& f, const DevicePtr& device, Run how) {
  std::vector<Tensor> leaves;
  for (const OpInput& input : op.inputs)
    leaves.push_back(variable(draw(input, text("x", leaves.size()), device, how)));
  Tensor y = f(leaves);
  OpResults results{to_host(y)};
  how.dtype = y.dtype();
  backward(y, draw({y.shape()}, "dy", device, how));
  for (const Tensor& x : leaves) results.push_back(to_host(gradient(x)));
  return results;
}

}  // namespace

Tensor uniform_tensor(const OpInput& input, const std::string& name, const DevicePtr& device,
                      DType dtype) {
  return draw(input, name, device, {dtype, dtype});
}

OpResults run_op(const OpCase& op, DType dtype, const DevicePtr& device) {
  return run(op, op.f, device, {dtype, dtype});
}

void check_op_gradients(const OpCase& op, const DevicePtr& device) {
  std::vector<Tensor> inputs;
  for (const OpInput& input : op.inputs)
    inputs.push_back(uniform_tensor(input, text("x", inputs.size()), device));
  try {
    check_gradients(op.f, inputs);
  } catch (const Error& error) {
    throw Error(op.name + ": " + error.what());
  }
}

void check_op_precision(const OpCase& op, DType dtype, const DevicePtr& device) {
  OpResults got = run(op, op.f, device, {dtype, dtype});
  OpResults exact = run(op, op.f, device, {DType::f64, dtype});
  OpResults terms = run(op, op.terms ? op.terms : op.f, device, {DType::f64, dtype, true});
  double share = op.roundings * 0x1p-24 + (dtype == DType::bf16 ? 4 * 0x1p-8 : 0);
  for (std::size_t t = 0; t < got.size(); ++t)
    for (std::size_t i = 0; i < got[t].size(); ++i) {
      double bound = share * (std::abs(terms[t][i]) + op.magnitude);
      double error = std::abs(got[t][i] - exact[t][i]);
      PG_CHECK(error <= bound, op.name, " in ", dtype, ", ",
               t ? text("gradient of input ", t - 1) : "result", ", element ", i, ": got ",
               got[t][i], ", in f64 it is ", exact[t][i], "; off by ", error, ", allowed ", bound);
    }
}

void check_op(const OpCase& op, const DevicePtr& device) {
  check_op_gradients(op, device);
  check_op_precision(op, DType::f32, device);
  check_op_precision(op, DType::bf16, device);
}

}  // namespace paragrad::tests
