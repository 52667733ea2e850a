// Runs a case in two types on the same rounded inputs, and on their absolute values for the bound.
// Not here: the cases (tests/op_cases.cpp); central differences (tests/gradcheck.cpp).
// Higham 2002, section 3.1.
#include "tests/op_checks.h"

#include <algorithm>

#include "autograd/backend.h"
#include "autograd/graph.h"
#include "autograd/ops.h"
#include "autograd/weight_part.h"
#include "tests/gradcheck.h"

namespace plangrad::tests {

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

/// Results and gradients, and the type that each came in.
struct Outcome {
  OpResults values;
  std::vector<DType> types;

  void take(const Tensor& x) {
    values.push_back(to_host(x));
    types.push_back(x.dtype());
  }
};

Outcome run(const OpCase& op, const OpFunction& f, const DevicePtr& device, Run how) {
  std::vector<Tensor> leaves;
  for (const OpInput& input : op.inputs)
    leaves.push_back(variable(draw(input, text("x", leaves.size()), device, how)));
  Tensor y = f(leaves);
  Outcome outcome;
  outcome.take(y.detach());
  how.dtype = y.dtype();
  backward(y, draw({y.shape()}, "dy", device, how));
  for (const Tensor& x : leaves) outcome.take(gradient(x));
  return outcome;
}

}  // namespace

Tensor uniform_tensor(const OpInput& input, const std::string& name, const DevicePtr& device,
                      DType dtype) {
  return draw(input, name, device, {dtype, dtype});
}

OpResults run_op(const OpCase& op, DType dtype, const DevicePtr& device) {
  return run(op, op.f, device, {dtype, dtype}).values;
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

void check_op_precision(const OpCase& op, DType dtype, const DevicePtr& device,
                        const DevicePtr& device_of_f64) {
  Outcome got = run(op, op.f, device, {dtype, dtype});
  OpResults exact = run(op, op.f, device_of_f64, {DType::f64, dtype}).values;
  const OpFunction& f = op.terms ? op.terms : op.f;
  OpResults terms = run(op, f, device_of_f64, {DType::f64, dtype, true}).values;
  for (std::size_t t = 0; t < exact.size(); ++t) {
    const Rounding& rounding = t ? op.gradient : op.result;
    double share = rounding.roundings * 0x1p-24, last = 0;
    if (dtype == DType::bf16) share += rounding.stored * 0x1p-8;
    if (got.types[t] == DType::bf16 && share > 0) last = 0x1p-8;
    for (std::size_t i = 0; i < exact[t].size(); ++i) {
      double value = got.values[t][i], expected = exact[t][i], size = std::abs(expected);
      double term = rounding.relative ? size : std::max(size, std::abs(terms[t][i]));
      double bound = share * (term + rounding.magnitude) + last * size;
      double error = std::abs(value - expected);
      PG_CHECK(error <= bound, op.name, " in ", dtype, ", ",
               t ? text("gradient of input ", t - 1) : "result", ", element ", i, ": got ", value,
               ", in f64 it is ", expected, "; off by ", error, ", allowed ", bound);
    }
  }
}

void check_op_parts(const OpCase& op, DType dtype, const DevicePtr& device) {
  const OpResults whole = run_op(op, dtype, device);
  for (std::size_t others : {0, 1}) {
    if (others == op.inputs.size()) continue;
    WeightPart later;
    bool first_part = true;
    std::vector<Tensor> leaves, sums(op.inputs.size());
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      auto sink = [&, i](const Tensor& dx) {
        PG_CHECK(!first_part, op.name, ": the gradient of weight ", i, " comes too early");
        sums[i] = sums[i].defined() ? sums[i] + dx : dx;
      };
      leaves.push_back(variable(uniform_tensor(op.inputs[i], text("x", i), device, dtype),
                                i < others ? GradientSink() : sink));
    }
    const Tensor y = op.f(leaves);
    first_part = !y.node()->is_leaf;
    backward(y, draw({y.shape()}, "dy", device, {y.dtype(), dtype}), &later);
    first_part = false;
    later.run();
    for (std::size_t i = 0; i < sums.size(); ++i)
      PG_CHECK(to_host(i < others ? gradient(leaves[i]) : sums[i]) == whole[i + 1], op.name, " in ",
               dtype, ": the gradient of input ", i,
               " differs where weights have a part of theirs");
  }
}

void check_op(const OpCase& op, const DevicePtr& device) {
  check_op_gradients(op, device);
  check_op_parts(op, DType::f32, device);
  check_op_parts(op, DType::bf16, device);
  check_op_precision(op, DType::f32, device);
  check_op_precision(op, DType::bf16, device);
}

}  // namespace plangrad::tests
