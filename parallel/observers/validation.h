// Validation: the loss of data that is not trained on, every few updates and at the run's end. All
// ranks run a plan of forwards alone; rank 0 weighs the losses.
// Not here: that plan (session/session.h). Chapter 02.
#pragma once

#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

/// Validates the run. It asks ranks for all of the data (true) or a few batches (false).
class Validation : public AskingObserver<bool, RunResult> {
 public:
  /// every: updates; 0: only at the end
  explicit Validation(int every) : every_(every) {}
  const char* name() const override { return "validation"; }
  Border next_border(int done) const override { return {next_multiple(every_, done), name()}; }
  void plan_ended(Lead& lead, const PlanEnd& plan) override {
    if (is_due(every_, plan.before, plan.done) && plan.done < lead.settings().steps)
      validate(lead, false);
  }
  void ended(Lead& lead) override {
    for (const char* key : {"validation_loss", "validation_accuracy"})  // of an earlier update
      lead.summary().erase(key);
    if (lead.steps() < lead.settings().steps) return;
    const nlohmann::json found = validate(lead, true);
    std::string line = text("validation loss ", found["validation_loss"].get<double>());
    if (found.contains("validation_accuracy"))
      line += text(", accuracy ", found["validation_accuracy"].get<double>());
    lead.say(line);
  }

 private:
  RunResult carry_out(SessionRank& rank, const bool& all) override {
    const int count = static_cast<int>(rank.data().validation_weights(all).size());
    const Plans::Shared plan = rank.settings().plans->evaluation(rank.steps(), count);
    RunResult result;
    rank.peaks().apart(name(),
                       [&] { result = rank.engine().run(*plan, rank.data().validation(all)); });
    for (const auto& [micro, loss] : result.losses)
      if (!std::isfinite(loss))
        throw Error(text("step ", rank.steps(), ": the validation loss is ",
                         std::isnan(loss) ? "not a number" : text(loss), "; ", when_not_finite));
    result.records.clear();
    return result;
  }

  /// Returns "validation_loss", in nats, and "validation_accuracy", the share of right predictions,
  /// if they were counted.
  nlohmann::json validate(Lead& lead, bool all) {
    const RunResult world = merged(ask(lead, all));
    const std::vector<double> weights = lead.data().validation_weights(all);
    auto mean = [&](const std::map<int, double>& values) {
      double sum = 0, count = 0;
      for (const auto& [micro, value] : values) {
        sum += weights[micro] * value;
        count += weights[micro];
      }
      return sum / count;
    };
    nlohmann::json found{{"validation_loss", mean(world.losses)}};
    if (!world.accuracies.empty()) found["validation_accuracy"] = mean(world.accuracies);
    lead.summary().update(found);
    lead.tell({Told::metric, lead.steps(), "", found});
    return found;
  }

  const int every_;
};

}  // namespace plangrad::parallel
