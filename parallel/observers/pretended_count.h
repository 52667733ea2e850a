// PretendedCount: what a run says of the devices and links that it pretends to have.
// Not here: how it is slowed down to them (engine/pretended_time.h). Chapter 06.
#pragma once

#include <memory>

#include "parallel/session/observer.h"
#include "parallel/simulation/pretended.h"

namespace plangrad::parallel {

/// Writes "pretended" to summary.json: what is pretended, in seconds and bytes per second, how many
/// computations of the session had a pretended time, and how many of them took longer ("late").
class PretendedCount : public RunObserver {
 public:
  explicit PretendedCount(std::shared_ptr<const Pretended> pretended)
      : pretended_(std::move(pretended)) {}
  const char* name() const override { return "pretended"; }
  void ready(Lead& lead) override { push(lead); }
  void heard(Lead& lead, const Heard& heard) override;
  void plan_ended(Lead& lead, const PlanEnd& plan) override;
  void ended(Lead& lead) override;

 private:
  void push(Lead& lead);

  std::shared_ptr<const Pretended> pretended_;
  std::int64_t computations_ = 0, late_ = 0;
};

/// "12 of 800 computations took longer than pretended; ..."; empty if none did.
///   summary: what PretendedCount writes
std::string lateness(const nlohmann::json& summary);

}  // namespace plangrad::parallel
