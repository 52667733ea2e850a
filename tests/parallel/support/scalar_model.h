// A model of one number per stage, and the rule by which a plan's steps should update it.
// Not here: ranks and messages (scalar_world).
#pragma once

#include <functional>

#include "parallel/plan/plan.h"

namespace plangrad::tests {

/// A stage: y = w x + 0.1 sin(x + w), plus 0.3 t x where it uses the tied number t.
/// Loss of a microbatch: (y - target)^2 / 2. Optimizer: SGD with momentum.
struct ScalarStage {
  double w = 0, t = 0;

  double output(double x) const;
  double input_gradient(double x, double dy) const;
  double weight_gradient(double x, double dy) const;
  double tied_gradient(double x, double dy) const { return 0.3 * x * dy; }
};

double scalar_input(int micro);
double scalar_target(int micro);
double scalar_first_weight(int stage, int version);  ///< of versions from before the plan
double scalar_clipped(double gradient, double squared_norm);

struct ScalarOptimizer {
  double velocity = 0;
  double step(double w, double gradient) {
    velocity = 0.9 * velocity + gradient;
    return w - 0.05 * velocity;
  }
};

/// The version of a stage that a microbatch reads.
using ReadVersion = std::function<int(int stage, int micro)>;

/// Serial training by a rule: which versions forwards read; and backwards, if they read others.
/// returns: the newest weights by stage
std::vector<double> simulate_rule(const parallel::Plan& plan, const ReadVersion& version,
                                  const ReadVersion& of_backward = {});

}  // namespace plangrad::tests
