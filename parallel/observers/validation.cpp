// All ranks run a plan of forwards alone; rank 0 weighs the losses.
// Chapter 02.
#include "parallel/observers/validation.h"

#include <cmath>

#include "parallel/codecs/codec.h"
#include "parallel/engine/row_run.h"
#include "parallel/session/session_lead.h"

namespace plangrad::parallel {

using nlohmann::json;

namespace {

double weighted_mean(const std::map<int, double>& values, const std::vector<double>& weights) {
  double sum = 0, count = 0;
  for (const auto& [micro, value] : values) {
    sum += weights[micro] * value;
    count += weights[micro];
  }
  return sum / count;
}

}  // namespace

void to_json(json& json, const ValidationResult& result) {
  json["validation_loss"] = result.loss;
  if (result.accuracy) json["validation_accuracy"] = *result.accuracy;
}

RunResult Validation::carry_out(SessionRank& rank, const bool& all) {
  const int count = static_cast<int>(rank.data().validation_weights(all).size());
  const Plans::Shared plan = rank.settings().plans->evaluation(rank.steps(), count);
  RunResult result = [&] {
    const PeakBook::Validating validating(rank.peaks());
    return rank.engine().run(*plan, rank.data().validation(all));
  }();
  for (const auto& [micro, loss] : result.losses)
    PG_CHECK(std::isfinite(loss), "step ", rank.steps(), ": the validation loss is ",
             std::isnan(loss) ? "not a number" : text(loss), "; ", when_not_finite);
  result.records.clear();
  return result;
}

ValidationResult Validation::validate(Lead& lead, bool all) {
  const RunResult world = merged(ask(lead, all));
  const std::vector<double> weights = lead.data().validation_weights(all);
  ValidationResult result{weighted_mean(world.losses, weights), {}};
  if (!world.accuracies.empty()) result.accuracy = weighted_mean(world.accuracies, weights);
  lead.summary().update(json(result));
  lead.tell({Told::metric, lead.steps(), "", result});
  return result;
}

void Validation::plan_ended(Lead& lead, const PlanEnd& plan) {
  if (is_due(every_, plan.before, plan.done) && plan.done < lead.settings().steps)
    validate(lead, false);
}

void Validation::ended(Lead& lead) {
  for (const char* key : {"validation_loss", "validation_accuracy"})  // of an earlier update
    lead.summary().erase(key);
  if (lead.steps() < lead.settings().steps) return;
  const auto [loss, accuracy] = validate(lead, true);
  lead.say(text("validation loss ", loss, accuracy ? text(", accuracy ", *accuracy) : ""));
}

}  // namespace plangrad::parallel
