// PretendedCount: what a run says of the devices and links that it pretends to have. A time that is
// 0 is not pretended, and not told.
// Not here: how it is slowed down to them (engine/pretended.h). Chapter 06.
#pragma once

#include "parallel/session/session_rank.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {

/// Writes "pretended" to summary.json: what is pretended, in seconds and bytes per second, how many
/// computations of the session had a pretended time, and how many of them took longer ("late").
class PretendedCount : public RunObserver {
 public:
  explicit PretendedCount(std::shared_ptr<const Pretended> pretended)
      : pretended_(std::move(pretended)) {}
  const char* name() const override { return "pretended"; }
  void ready(Lead& lead) override { push(lead); }
  void heard(Lead& lead, const Heard& heard) override {
    for (const RunResult& result : heard.results) late_ += result.late;
    push(lead);
  }
  void plan_ended(Lead& lead, const PlanEnd& end) override {
    computations_ += pretended_->computations(end.plan) / end.plan.steps * (end.done - end.before);
    push(lead);
  }
  void ended(Lead& lead) override {
    if (lead.steps() > lead.first() && late_ > 0) lead.say(lateness(late_, computations_));
  }

 private:
  void push(Lead& lead) {
    nlohmann::json& result = lead.summary()["pretended"] = nlohmann::json::object();
    for (const auto& [key, times] : {std::pair("forward", pretended_->forward),
                                     {"backward", pretended_->backward},
                                     {"step", pretended_->step}})
      if (std::ranges::any_of(times, [](double x) { return x > 0; })) result[key] = times;
    if (pretended_->computes()) {
      result["computations"] = computations_;
      result["late"] = late_;
    }
    if (!pretended_->links()) return;
    const Topology& topology = pretended_->topology;
    if (!pretended_->machine.empty()) return void(result["machine"] = pretended_->machine);
    const bool cards = topology.devices_per_host > 0;
    for (const Link& link : topology.links) {
      const std::string inner = cards && link.reach == Reach::pair ? "host_" : "";
      result[inner + "latency"] = link.latency;
      result[inner + "bandwidth"] = link.bandwidth;
    }
    if (cards) result["ranks_per_card"] = topology.devices_per_host;
  }

  std::shared_ptr<const Pretended> pretended_;
  std::int64_t computations_ = 0, late_ = 0;
};

}  // namespace plangrad::parallel
