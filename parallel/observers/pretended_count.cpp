// A time that is 0 is not pretended, and not told.
// Chapter 06.
#include "parallel/observers/pretended_count.h"

#include <algorithm>

#include "parallel/session/session_lead.h"

namespace plangrad::parallel {

using nlohmann::json;

void PretendedCount::push(Lead& lead) {
  json& result = lead.summary()["pretended"] = json::object();
  for (const auto& [key, times] : {std::pair("forward", pretended_->forward),
                                   {"backward", pretended_->backward},
                                   {"step", pretended_->step}})
    if (std::ranges::any_of(times, [](double x) { return x > 0; })) result[key] = times;
  if (pretended_->computes()) {
    result["computations"] = computations_;
    result["late"] = late_;
  }
  if (!pretended_->links()) return;
  result["latency"] = pretended_->latency;
  result["bandwidth"] = pretended_->bandwidth;
  if (pretended_->ranks_per_card > 0) result["ranks_per_card"] = pretended_->ranks_per_card;
}

void PretendedCount::heard(Lead& lead, const Heard& heard) {
  for (const RunResult& result : heard.results) late_ += result.late;
  push(lead);
}

void PretendedCount::plan_ended(Lead& lead, const PlanEnd& end) {
  computations_ += pretended_->computations(end.plan) / end.plan.steps * (end.done - end.before);
  push(lead);
}

void PretendedCount::ended(Lead& lead) {
  const std::string late = lateness(lead.summary()["pretended"]);
  if (lead.steps() > lead.first() && !late.empty()) lead.say(late);
}

std::string lateness(const json& summary) {
  if (summary.value("late", 0) == 0) return "";
  return text(summary["late"].get<std::int64_t>(), " of ",
              summary["computations"].get<std::int64_t>(),
              " computations took longer than pretended; the times are not those of the devices");
}

}  // namespace plangrad::parallel
