// A step runs one kernel for all weights, and another for statistics, if there are any.
// Not here: the kernels (autograd/cpu/elementwise.cpp).
// Chapter 02; Loshchilov and Hutter 2017 (the schedule) and 2019 (AdamW).
#include "nn/optimizers/optimizer.h"

#include <numeric>

namespace plangrad::nn {

/// Appends a parameter's elements, to the last segment if they continue it.
static void append(Segments& segments, const Parameter& p, bool decays) {
  const std::int64_t last = p.offset + p.shape.numel();
  if (!segments.empty() && segments.back().last == p.offset && segments.back().decays == decays)
    segments.back().last = last;
  else
    segments.push_back({p.offset, last, decays});
}

Optimizer::Optimizer(const ParameterList& parameters, const Tensor& weights,
                     const std::vector<std::string>& names, Kernel kernel)
    : has_master_(weights.dtype() == DType::bf16), kernel_(std::move(kernel)) {
  for (const Parameter& p : parameters)
    if (p.kind == ParameterKind::statistic)
      append(statistics_, p, true);
    else
      append(weights_, p, p.decays);
  CategoryScope category(*weights.device(), Category::optimizer);
  DType dtype = gradient_dtype(weights.dtype());
  for (const std::string& name : names)
    state_.emplace_back(name, zeros(weights.shape(), dtype, weights.device()));
  if (has_master_) state_.emplace_back("master", empty(weights.shape(), dtype, weights.device()));
  reset_master(weights);
}

void Optimizer::reset_master(const Tensor& weights) {
  if (has_master_) weights.backend().copy(weights, state_.back().second);
}

// [snippet step]
void Optimizer::step(const StepSettings& settings, const Tensor& weights, const Tensor& gradients) {
  Buffers all{weights_, gradients, {}, has_master_ ? state_.back().second : weights, weights};
  for (const auto& [name, buffer] : state_) all.state.push_back(buffer);
  kernel_(settings, all);
  if (statistics_.empty()) return;
  // s <- s - share (s - mean observation) is a step of SGD with decay 1 and a negated gradient.
  const SgdStep follow{statistic_share, 0, 1, -settings.average};
  weights.backend().sgd(follow, statistics_, gradients, all.state[0], all.master, weights);
}
// [end snippet]

std::unique_ptr<Optimizer> make_sgd(const ParameterList& parameters, const Tensor& weights,
                                    double momentum, double weight_decay) {
  ParameterList all = parameters;
  for (Parameter& p : all) p.decays = true;
  auto kernel = [=](const StepSettings& settings, const Optimizer::Buffers& b) {
    const SgdStep step{settings.learning_rate, momentum, weight_decay,
                       settings.average * settings.clip};
    b.weights.backend().sgd(step, b.segments, b.gradients, b.state[0], b.master, b.weights);
  };
  return std::make_unique<Optimizer>(all, weights, std::vector<std::string>{"momentum"}, kernel);
}

std::unique_ptr<Optimizer> make_adamw(const ParameterList& parameters, const Tensor& weights,
                                      double weight_decay, double beta1, double beta2,
                                      double epsilon) {
  auto kernel = [=](const StepSettings& settings, const Optimizer::Buffers& b) {
    const AdamWStep step{.learning_rate = settings.learning_rate,
                         .beta1 = beta1,
                         .beta2 = beta2,
                         .epsilon = epsilon,
                         .weight_decay = weight_decay,
                         .gradient_scale = settings.average * settings.clip,
                         .step = settings.step};
    b.weights.backend().adamw(step, b.segments, b.gradients, b.state[0], b.state[1], b.master,
                              b.weights);
  };
  return std::make_unique<Optimizer>(
      parameters, weights, std::vector<std::string>{"first_moment", "second_moment"}, kernel);
}

// [snippet rate]
double LearningRate::at(std::int64_t step) const {
  if (step < warmup)
    return highest * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  if (step >= steps) return lowest;
  double done = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return lowest + 0.5 * (1 + std::cos(std::numbers::pi * done)) * (highest - lowest);
}

// [end snippet]

// [snippet norm]
std::vector<double> sums_of_squares(const ParameterList& parameters, const Tensor& gradients) {
  std::vector<Tensor> parts;
  for (const Parameter& parameter : parameters)
    parts.push_back(gradients.window(parameter.offset, parameter.shape));
  std::vector<double> sums = gradients.backend().sums_of_squares(parts);
  auto next = sums.begin();
  for (const Parameter& parameter : parameters) {
    double& sum = *next++;
    if (parameter.kind != ParameterKind::weight) sum = 0;
  }
  return sums;
}

double gradient_norm(const ParameterList& parameters, const Tensor& gradients) {
  std::vector<double> sums = sums_of_squares(parameters, gradients);
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}
// [end snippet]

double clip_scale(double norm, double limit) {
  return limit > 0 && norm > limit ? limit / (norm + 1e-6) : 1;
}

}  // namespace plangrad::nn
