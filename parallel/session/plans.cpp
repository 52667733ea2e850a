// The last few plans by what they were asked for.
// Chapter 05.
#include "parallel/session/plans.h"

#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {

Plans::Shared Plans::get(int first, int steps) {
  return find({first, steps}, [&] { return make_(first, steps); });
}

Plans::Shared Plans::evaluation(int first, int steps, int microbatches) {
  const Shared like = get(first, steps);
  return find({first, steps, microbatches},
              [&] { return make_evaluation(like->plan(), first, microbatches); });
}

/// Others wait at the lock while one rank makes a plan.
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
