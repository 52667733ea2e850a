// A step is one kernel for each segment: neighbours in the flat buffer that are treated alike.
// Not here: the kernels (autograd/cpu/optimizer.cpp).
// Chapter 02; Loshchilov and Hutter 2017 (the schedule) and 2019 (AdamW).
#include "nn/optimizers/optimizer.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace paragrad::nn {

std::vector<Segment> segments(const ParameterList& parameters) {
  std::vector<Segment> result;
  for (const Parameter& parameter : parameters) {
    std::int64_t last = parameter.offset + parameter.shape.numel();
    if (!result.empty() && result.back().decays == parameter.decays &&
        result.back().kind == parameter.kind)
      result.back().last = last;
    else
      result.push_back({parameter.offset, last, parameter.decays, parameter.kind});
  }
  return result;
}

Optimizer::Optimizer(const ParameterList& parameters, const Tensor& weights,
                     const std::vector<std::string>& names)
    : segments_(segments(parameters)), has_master_(weights.dtype() == DType::bf16) {
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
  const Tensor& masters = has_master_ ? state_.back().second : weights;
  for (const Segment& segment : segments_) {
    auto part = [&](const Tensor& x) {
      return x.window(segment.first, {segment.last - segment.first});
    };
    std::vector<Tensor> state;
    for (const auto& [name, buffer] : state_) state.push_back(part(buffer));
    if (segment.kind == ParameterKind::statistic) {
      // s <- s - share (s - mean observation) is a step of SGD with decay 1 and a negated gradient.
      SgdStep follow{statistic_share, 0, 1, -settings.average};
      weights.backend().sgd(follow, part(gradients), state[0], part(masters), part(weights));
    } else {
      step_segment(settings, segment, part(gradients), state, part(masters), part(weights));
    }
  }
}
// [end snippet]

namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const ParameterList& parameters, const Tensor& weights, double momentum, double weight_decay)
      : Optimizer(parameters, weights, {"momentum"}),
        momentum_(momentum),
        weight_decay_(weight_decay) {}

 private:
  void step_segment(const StepSettings& settings, const Segment&, const Tensor& gradient,
                    const std::vector<Tensor>& state, const Tensor& master,
                    const Tensor& weights) override {
    SgdStep step{settings.learning_rate, momentum_, weight_decay_,
                 settings.average * settings.clip};
    weights.backend().sgd(step, gradient, state[0], master, weights);
  }

  double momentum_, weight_decay_;
};

class AdamW : public Optimizer {
 public:
  AdamW(const ParameterList& parameters, const Tensor& weights, const AdamWStep& settings)
      : Optimizer(parameters, weights, {"first_moment", "second_moment"}), settings_(settings) {}

 private:
  void step_segment(const StepSettings& settings, const Segment& segment, const Tensor& gradient,
                    const std::vector<Tensor>& state, const Tensor& master,
                    const Tensor& weights) override {
    AdamWStep step = settings_;
    step.learning_rate = settings.learning_rate;
    step.gradient_scale = settings.average * settings.clip;
    step.step = settings.step;
    if (!segment.decays) step.weight_decay = 0;
    weights.backend().adamw(step, gradient, state[0], state[1], master, weights);
  }

  AdamWStep settings_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const ParameterList& parameters, const Tensor& weights,
                                    double momentum, double weight_decay) {
  return std::make_unique<Sgd>(parameters, weights, momentum, weight_decay);
}

std::unique_ptr<Optimizer> make_adamw(const ParameterList& parameters, const Tensor& weights,
                                      double weight_decay, double beta1, double beta2,
                                      double epsilon) {
  AdamWStep settings;
  settings.weight_decay = weight_decay;
  settings.beta1 = beta1;
  settings.beta2 = beta2;
  settings.epsilon = epsilon;
  return std::make_unique<AdamW>(parameters, weights, settings);
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

}  // namespace paragrad::nn
