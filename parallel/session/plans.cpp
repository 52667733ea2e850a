// Keeps the last few plans by what was asked for.
// Chapter 05.
#include "parallel/session/plans.h"

#include <algorithm>

namespace paragrad::parallel {

Plan Plans::make(int first, int steps) const {
  if (own_) return moved_by(*own_, first - own_->first);
  Layout layout = layout_;
  layout.first = first;
  layout.steps = steps;
  return make_plan(schedule_, layout);
}

Plans::Shared Plans::get(int first, int steps) {
  return find({first, steps}, [&] { return make(first, steps); });
}

Plans::Shared Plans::evaluation(int first, int microbatches) {
  const Shared like = shortest(first);
  return find({first, 0, microbatches},
              [&] { return make_evaluation(like->plan(), first, microbatches); });
}

Plans::Shared Plans::endless(int first) {
  if (own_) return nullptr;
  return find({.first = first, .endless = true}, [&] {
    std::optional<Plan> plan;
    if (has_endless_ && std::ranges::max(make(first, 1).keep) > 1)
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

}  // namespace paragrad::parallel
