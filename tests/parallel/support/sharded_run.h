// Runs of sharded plans of a small GPT: what tests of sharding share.
#pragma once

#include "tests/parallel/support/sharded_plans.h"
#include "tests/parallel/support/small_run.h"

namespace plangrad::tests {

/// Widths and numbers of parameters that 2, 3 and 4 do not divide.
GptConfig odd_gpt(bool tied = false);

/// The run to make; ZeRO 0 is plain data parallelism.
struct Form {
  int zero, ranks, stages;
  int microbatches = 1;
  bool clip = false, sgd = false;
  DType dtype = DType::f32;
  AllReduce reduction = AllReduce::scatter_reduce;
};
std::ostream& operator<<(std::ostream& out, const Form& form);

Training training_of(const Form& form);
Plan plan_of(const Form& form, int steps, int first = 0);
/// Two plans of two steps.
std::vector<VerifiedPlan> plans_of(const Form& form);
/// Runs it by the engine.
Outcome run(const Form& form);

/// Elements of each stage, and of all of them.
std::vector<std::int64_t> counts(const Training& training);
std::int64_t sum(const std::vector<std::int64_t>& counts);

}  // namespace plangrad::tests
