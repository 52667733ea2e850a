// Keeps the last few plans by what was asked for.
// Chapter 05.
#include "parallel/session/plans.h"

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

/// Other ranks wait at the lock while one rank makes a plan.
Plans::Shared Plans::find(const Key& key, const std::function<Plan()>& make) {
  constexpr std::size_t most = 4;
  std::lock_guard lock(mutex_);
  for (const auto& [known, plan] : recent_)
    if (known == key) return plan;
  auto plan = std::make_shared<const VerifiedPlan>(verify(make()));
  if (recent_.size() == most) recent_.pop_front();
  return recent_.emplace_back(key, std::move(plan)).second;
}

}  // namespace paragrad::parallel
