// Contracts the result with fixed random weights to one number, so that one backward pass gives all
// gradients; two forward passes an element then give the differences. For small inputs. Chapter 01.
#include "tests/gradcheck.h"

#include <algorithm>
#include <iomanip>

#include "autograd/graph.h"
#include "autograd/random.h"

namespace plangrad::tests {

namespace {

std::vector<double> weights_of(const Tensor& y) {
  RandomKey key(0, "check_gradients");
  std::vector<double> weights(y.numel());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.5 + uniform(key, i);
  return weights;
}

/// F, or, with `absolute`, the sum of the absolute values of its terms.
double contract(const Tensor& y, const std::vector<double>& weights, bool absolute = false) {
  std::vector<double> values = to_host(y);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    sum += weights[i] * (absolute ? std::abs(values[i]) : values[i]);
  return sum;
}

struct Gradients {
  std::vector<double> weights;              ///< of the result's elements in F
  double scale = 0;                         ///< 1 + the sum of F's absolute terms
  std::vector<std::vector<double>> values;  ///< one list for each input
};

Gradients by_backward(const OpFunction& f, const std::vector<Tensor>& inputs) {
  Gradients result;
  std::vector<Tensor> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    result.values.emplace_back(inputs[i].numel(), 0.0);
    leaves.push_back(inputs[i]);
    if (inputs[i].dtype() != DType::f64) continue;
    leaves[i] = variable(inputs[i], [&result, &x = inputs[i], i](const Tensor& dx) {
      PG_CHECK(dx.shape() == x.shape() && dx.dtype() == x.dtype(), "check_gradients: input ", i,
               " is ", x, ", its gradient ", dx);
      std::vector<double> part = to_host(dx);
      for (std::size_t j = 0; j < part.size(); ++j) result.values[i][j] += part[j];
    });
  }
  Tensor y = f(leaves);
  PG_CHECK(y.dtype() == DType::f64, "check_gradients: expected a result of f64, got ", y);
  result.weights = weights_of(y);
  result.scale = 1 + contract(y, result.weights, true);
  backward(y, from_host(result.weights, y.shape(), y.device()));
  return result;
}

/// dF / d inputs[i][j]
double by_differences(const OpFunction& f, const std::vector<double>& weights,
                      std::vector<Tensor> inputs, std::size_t i, std::size_t j, double step) {
  std::vector<double> x = to_host(inputs[i]);
  double centre = x[j], width = step * std::max(1.0, std::abs(centre));
  auto value_at = [&](double at) {
    x[j] = at;
    inputs[i] = from_host(x, inputs[i].shape(), inputs[i].device());
    return contract(f(inputs), weights);
  };
  double above = centre + width, below = centre - width;  // rounded: divide by what they are
  return (value_at(above) - value_at(below)) / (above - below);
}

}  // namespace

void check_gradients(const OpFunction& f, const std::vector<Tensor>& inputs,
                     const GradientCheck& check) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    PG_CHECK(inputs[i].dtype() == DType::f64 || inputs[i].dtype() == DType::i32,
             "check_gradients: input ", i, " is ", inputs[i],
             "; differences need f64 (i32 is passed on)");
  Gradients gradients = by_backward(f, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != DType::f64) continue;
    for (std::size_t j = 0; j < gradients.values[i].size(); ++j) {
      double expected = by_differences(f, gradients.weights, inputs, i, j, check.step);
      double got = gradients.values[i][j], bound = check.tolerance * gradients.scale;
      PG_CHECK(std::abs(got - expected) <= bound, std::setprecision(12), "check_gradients: input ",
               i, " ", inputs[i].shape(), ", element ", j, ": backward gives ", got,
               ", central differences give ", expected, "; allowed difference ", bound);
    }
  }
}

}  // namespace plangrad::tests
