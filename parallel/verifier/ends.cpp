// Ends: what is missing when all rows have run, and what is left over on a rank.
// Not here: weights and sums (versions, sums), and messages that nobody receives (pairing).
// Chapter 06.
#include <algorithm>

#include "parallel/verifier/replay.h"

namespace plangrad::parallel {

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

void Replay::check_leaks() const {
  versions_.check_leaks();
  sums_.check_leaks();
  int pass = -1, value = -1;  // the last cells with something left over
  for (const auto& [name, left] : passes_) pass = std::max(pass, left.forward_at);
  for (const auto& [name, cell] : here_)
    if (plan_.rows[rank_][cell].op != Op::norm) value = std::max(value, cell);
  if (pass >= 0)
    refuse("leak", {plan_, rank_, pass}, "its activations are left over: ",
           plan_.steps == 0 ? "no drop frees them" : "no backward frees them");
  if (value >= 0)
    refuse("leak", {plan_, rank_, value}, "what it brings is left over; nothing here takes it");
}

}  // namespace plangrad::parallel
