// Keeps the last few plans by what was asked for. A user's own plan has the updates of its head and
// tail, and of any number of bodies: borders must lie where such plans can end. Chapter 05.
#include "parallel/session/session.h"

#include "parallel/plan/plan.h"

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
  if (own_ && !own_->is_endless()) return later_plan(*own_, first - own_->first);
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

Borders::Borders(const SessionScope& scope, int first, const Observers& observers)
    : last_(scope.stop_after > 0 ? first + std::min(scope.stop_after, scope.steps - first)
                                 : scope.steps),
      save_every_(scope.save_every),
      observers_(observers) {}

int Borders::distance(int done) const {
  int next = std::min(last_, next_multiple(save_every_, done));
  for (const auto& observer : observers_)
    next = std::min(next, observer->next_border(done).updates);
  return next - done;
}

/// If several observers want this border, the last of them names it.
const char* Borders::why(int before, int done) const {
  if (done == last_) return "end";
  if (saves(before, done)) return "checkpoint";
  for (auto each = observers_.rbegin(); each != observers_.rend(); ++each)
    if (const Border border = (*each)->next_border(before); border.updates <= done && border.why)
      return border.why;
  return nullptr;
}

int steps_in_a_second(double seconds_per_step, bool overlaps_updates, int fewest) {
  const int most = 1000;
  return std::clamp(static_cast<int>(std::min<double>(most, 1 / seconds_per_step)),
                    overlaps_updates ? fewest : 1, most);
}

void check_lengths(const Lengths& lengths, const Borders& borders, int first) {
  if (lengths.every == 0 || lengths.makes(1)) return;  // plans of one update end at any border
  for (int done = first, next; done < borders.last(); done = next) {
    next = done + borders.distance(done);
    const char* why = borders.why(done, next);
    PG_CHECK(lengths.makes(next - done), "--plan: the plan makes ",
             counted(lengths.least, "update"), ", or ", lengths.every,
             " more any number of times; it can't make the ", next - done, " from update ", done,
             " to the ", why ? why : "next border", " after update ", next,
             "; use other --steps, --stop-after, --evaluate-every, --save-every or --check");
  }
}

}  // namespace plangrad::parallel
