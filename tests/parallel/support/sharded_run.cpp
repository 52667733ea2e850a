// See sharded_run.h.
#include "tests/parallel/support/sharded_run.h"

namespace plangrad::tests {

GptConfig odd_gpt(bool tied) { return {2, 1, 5, 7, 19, 0.1, tied}; }

std::ostream& operator<<(std::ostream& out, const Form& f) {
  return out << "zero " << f.zero << " N" << f.ranks << " D" << f.stages << " M" << f.microbatches
             << (f.clip ? " clip" : "") << (f.sgd ? " sgd " : " adamw ") << f.dtype
             << (f.reduction == AllReduce::ring ? " ring" : "");
}

Training training_of(const Form& f) {
  Training training = training_with_warmup(gpt(odd_gpt()), f.stages, !f.sgd, f.clip ? 0.3 : 0);
  training.dtype = f.dtype;
  return training;
}

Plan plan_of(const Form& f, int steps, int first) {
  if (f.zero > 0)
    return sharded_plan({f.zero, f.ranks, f.stages, f.microbatches, steps, first, f.clip});
  Layout layout{f.stages, f.ranks, f.microbatches, steps, first};
  layout.clip = f.clip;
  return make_plan("data", layout);
}

std::vector<VerifiedPlan> plans_of(const Form& f) {
  std::vector<VerifiedPlan> result;
  for (int first : {0, 2}) result.push_back(verify(plan_of(f, 2, first)));
  return result;
}

Outcome run(const Form& f) {
  SmallBatches batches(odd_gpt());
  return run_by_engine(training_of(f), plans_of(f), batches, 0, f.reduction);
}

std::vector<std::int64_t> counts(const Training& training) {
  std::vector<std::int64_t> result;
  for (int stage = 0; stage < training.stages(); ++stage)
    result.push_back(
        Stage(training.model, training.cuts[stage], training.cuts[stage + 1]).parameters().numel());
  return result;
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  std::int64_t total = 0;
  for (std::int64_t count : counts) total += count;
  return total;
}

}  // namespace plangrad::tests
