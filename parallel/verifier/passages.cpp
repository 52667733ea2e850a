// One number for each microbatch, stage and direction: the rank that has run it.
// Not here: what a passage needs and leaves (replay).
// Chapter 06.
#include "parallel/verifier/passages.h"

#include <algorithm>

#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

Passages::Passages(const Plan& plan) : plan_(plan) {
  forward_.assign(place(plan.stages, plan.first_micro()), -1);
  backward_ = forward_;
}

void Passages::check_end() const {
  auto check = [&](const std::vector<int>& ranks, const char* direction) {
    auto found = std::find(ranks.begin(), ranks.end(), -1);
    if (found == ranks.end()) return;
    const int micros = plan_.last_micro() - plan_.first_micro();
    const int at = static_cast<int>(found - ranks.begin());
    throw PlanError("end", -1, -1,
                    autograd::text("end: microbatch ", plan_.first_micro() + at % micros,
                                   " never runs ", direction, " through stage ", at / micros,
                                   "; every microbatch passes every stage once"));
  };
  check(forward_, "forward");
  if (plan_.steps > 0) check(backward_, "backward");
}

}  // namespace paragrad::parallel
