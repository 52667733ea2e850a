// Validation: the loss of data that is not trained on, every few updates and at the run's end.
// Not here: the plan of forwards alone (session/plans.h). Chapter 02.
#pragma once

#include "parallel/session/observer.h"

namespace plangrad::parallel {

/// The results of one validation; the loss is in nats.
struct ValidationResult {
  double loss = 0;
  std::optional<double> accuracy;  ///< share of right predictions, if they were counted
};
/// Writes "validation_loss", and "validation_accuracy" if there is one.
void to_json(nlohmann::json& json, const ValidationResult& result);

/// Validates the run. It asks ranks for all of the data (true) or a few batches (false).
class Validation : public AskingObserver<bool, RunResult> {
 public:
  /// every: updates; 0: only at the end
  explicit Validation(int every) : every_(every) {}
  const char* name() const override { return "validation"; }
  Border next_border(int done) const override { return {next_multiple(every_, done), name()}; }
  void plan_ended(Lead& lead, const PlanEnd& plan) override;
  void ended(Lead& lead) override;

 private:
  RunResult carry_out(SessionRank& rank, const bool& all) override;
  ValidationResult validate(Lead& lead, bool all);

  const int every_;
};

}  // namespace plangrad::parallel
