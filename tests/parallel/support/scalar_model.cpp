// The model's formulas, and serial training in a loop over steps and microbatches.
// Not here: ranks and messages (scalar_world).
#include "tests/parallel/support/scalar_model.h"

#include <cmath>

namespace plangrad::tests {

double ScalarStage::output(double x) const { return w * x + 0.1 * std::sin(x + w) + 0.3 * t * x; }
double ScalarStage::input_gradient(double x, double dy) const {
  return dy * (w + 0.1 * std::cos(x + w) + 0.3 * t);
}
double ScalarStage::weight_gradient(double x, double dy) const {
  return dy * (x + 0.1 * std::cos(x + w));
}
double scalar_input(int micro) { return 1 + 0.3 * std::sin(7.0 * micro); }
double scalar_target(int micro) { return 0.5 + 0.2 * std::cos(5.0 * micro); }
double scalar_first_weight(int stage, int version) { return 0.8 + 0.05 * stage + 0.01 * version; }
double scalar_clipped(double gradient, double squared_norm) {
  return gradient / (1 + std::sqrt(squared_norm));
}

std::vector<double> simulate_rule(const parallel::Plan& plan, const ReadVersion& version,
                                  const ReadVersion& of_backward) {
  std::vector<std::map<int, double>> weights(plan.stage_count());  // by stage and version
  for (int stage = 0; stage < plan.stage_count(); ++stage)
    for (int old = 0; old <= plan.first; ++old)
      weights[stage][old] = scalar_first_weight(stage, old);
  std::vector<ScalarOptimizer> optimizers(plan.stage_count());
  for (int made = plan.first + 1; made <= plan.first + plan.steps; ++made) {
    std::vector<double> sums(plan.stage_count());
    for (int micro = (made - 1) * plan.per_step; micro < made * plan.per_step; ++micro) {
      std::vector<ScalarStage> stages(plan.stages);
      std::vector<double> x{scalar_input(micro)};
      auto read = [&](int s, const ReadVersion& rule) {
        stages[s].w = weights[s].at(rule(s, micro));
        if (std::count(plan.tied.begin(), plan.tied.end(), s))
          stages[s].t = weights[plan.stages].at(rule(plan.drift > 0 ? s : plan.tied[0], micro));
      };
      for (int s = 0; s < plan.stages; ++s) {
        read(s, version);
        x.push_back(stages[s].output(x[s]));
      }
      double dy = x.back() - scalar_target(micro);
      for (int s = plan.stages - 1; s >= 0; --s) {
        if (of_backward) read(s, of_backward);
        sums[s] += stages[s].weight_gradient(x[s], dy);
        if (std::count(plan.tied.begin(), plan.tied.end(), s))
          sums[plan.stages] += stages[s].tied_gradient(x[s], dy);
        dy = stages[s].input_gradient(x[s], dy);
      }
    }
    double squared_norm = 0;
    for (double sum : sums) squared_norm += sum * sum;
    for (int s = 0; s < plan.stage_count(); ++s)
      weights[s][made] = optimizers[s].step(
          weights[s].at(made - 1), plan.clip ? scalar_clipped(sums[s], squared_norm) : sums[s]);
  }
  std::vector<double> newest;
  for (const auto& versions : weights) newest.push_back(versions.rbegin()->second);
  return newest;
}

}  // namespace plangrad::tests
