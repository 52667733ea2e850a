// Keeps the last few plans by what was asked for.
// Chapter 05.
#include "parallel/session/plans.h"

#include <algorithm>

#include "parallel/plan/endless.h"

namespace plangrad::parallel {

bool Lengths::makes(int steps) const {
  for (; steps >= least; steps -= least)
    if (has(steps)) return true;
  return false;
}

int Lengths::fitted(int wanted, int left) const {
  for (int steps = std::max(wanted, least); steps < left; ++steps)
    if (has(steps) && makes(left - steps)) return steps;
  return has(left) ? left : least;
}

Plans::Plans(Plan own) : own_(std::move(own)), lengths_{own_->steps, own_->period} {
  if (!own_->is_endless()) return;
  if (lengths_.least > own_->period) lengths_.least -= own_->period;  // without a body
  later_by(*own_, 1);
}

Plan Plans::make(int first, int steps) const {
  if (own_ && !own_->is_endless()) return moved_by(*own_, first - own_->first);
  if (own_) return unrolled(later_by(*own_, first), (steps - own_->steps) / own_->period + 1);
  Layout layout = layout_;
  layout.first = first;
  layout.steps = steps;
  return make_plan(schedule_, layout);
}

Plans::Shared Plans::get(int first, int steps) {
  return find({first, steps}, [&] { return make(first, steps); });
}

void Plans::check(int first, int left) {
  shortest(first);
  constexpr int several = 3;
  if (!own_) get(first, std::min(several, left));
}

Plans::Shared Plans::evaluation(int first, int microbatches) {
  const Shared like = shortest(first);
  return find({first, 0, microbatches},
              [&] { return make_evaluation(like->plan(), first, microbatches); });
}

Plans::Shared Plans::endless(int first) {
  if ((own_ && !own_->is_endless()) || !has_endless_) return nullptr;
  const Shared like = shortest(first);
  return find({.first = first, .endless = true}, [&] {
    std::optional<Plan> plan;
    if (own_) return plan = later_by(*own_, first);
    if (like->plan().overlaps_updates())
      plan = make_endless([&](int steps) { return make(first, steps); });
    has_endless_ = plan.has_value();
    return plan;
  });
}

/// Other ranks wait at the lock while one rank makes a plan.
Plans::Shared Plans::find(const Key& key, const std::function<std::optional<Plan>()>& make) {
  constexpr std::size_t most = 4;
  std::lock_guard lock(mutex_);
  for (const auto& [known, plan] : recent_)
    if (known == key) return plan;
  std::optional<Plan> made = make();
  Shared plan = made ? std::make_shared<const VerifiedPlan>(verify(std::move(*made))) : nullptr;
  if (recent_.size() == most) recent_.pop_front();
  return recent_.emplace_back(key, std::move(plan)).second;
}

}  // namespace plangrad::parallel
