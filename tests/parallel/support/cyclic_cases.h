// Runs of cyclic schedules, and the weights that their rule, written out with the whole model on
// one rank, gets to: what tests compare over threads and over MPI.
// Not here: the rule itself (whole_model).
#pragma once

#include "tests/parallel/support/small_run.h"
#include "tests/parallel/support/whole_model.h"

namespace plangrad::tests {

/// The small GPT, with at least as many layers as stages.
inline Training cyclic_training(int stages, bool adamw, bool tied = false, double clip = 0) {
  GptConfig config = small_gpt(tied, 0.1);
  config.layers = std::max<std::int64_t>(config.layers, stages - 2);
  return training_with_warmup(gpt(config), stages, adamw, clip);
}

/// Two plans of two steps each.
inline std::vector<VerifiedPlan> cyclic_plans(const std::string& rule, Setting setting, int n,
                                              bool clip = false) {
  Layout layout{.stages = n, .steps = 2, .clip = clip, .setting = setting};
  return plans_of("cyclic-" + rule, layout, 2);
}

/// The weights of each stage after so many steps of the rule.
inline std::vector<std::vector<double>> ruled(const Training& training, const std::string& rule,
                                              Batches& batches, int steps = 4) {
  const int n = training.stages();
  Layout layout{.stages = n, .microbatches = n, .steps = steps, .clip = training.clip > 0};
  WholeModel model(training, layout, batches);
  Tensor weights = rule == "v1" ? cyclic_v1(model, layout) : cyclic_v2(model, layout);
  std::vector<std::vector<double>> parts;
  for (int stage = 0; stage < n; ++stage) parts.push_back(model.part(weights, stage));
  return parts;
}

}  // namespace plangrad::tests
