// A user's own plan has the updates of its head and tail, and of any number of bodies: borders must
// lie where such plans can end.
// Chapter 05.
#include "parallel/session/borders.h"

#include <algorithm>

namespace plangrad::parallel {

Borders::Borders(const SessionScope& scope, int first, int bits_every, const Observers& observers)
    : last_(scope.stop_after > 0 ? std::min(scope.steps, first + scope.stop_after) : scope.steps),
      save_every_(scope.save_every),
      bits_every_(bits_every),
      observers_(observers) {}

int Borders::distance(int done) const {
  int steps = last_ - done;
  for (const auto& observer : observers_)
    steps = std::min(steps, observer->next_border(done).updates - done);
  for (int every : {save_every_, bits_every_})
    if (every > 0) steps = std::min(steps, every - done % every);
  return steps;
}

const char* Borders::why(int before, int done) const {
  if (done == last_) return "end";
  if (saves(before, done)) return "checkpoint";
  for (auto each = observers_.rbegin(); each != observers_.rend(); ++each)
    if (const Border border = (*each)->next_border(before); border.updates <= done && border.why)
      return border.why;
  if (chooses_bits(before, done)) return "choice of bits";
  return nullptr;
}

int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest) {
  const int most = 1000;
  return std::clamp(static_cast<int>(std::min<double>(most, 1 / seconds_per_step)),
                    like.overlaps_updates() ? fewest : 1, most);
}

void check_lengths(const Lengths& lengths, const Borders& borders, int first) {
  if (lengths.every == 0) return;
  for (int done = first, next; done < borders.last(); done = next) {
    next = done + borders.distance(done);
    PG_CHECK(lengths.makes(next - done), "--plan: the plan makes ", lengths.least, " updates, or ",
             lengths.every, " more any number of times; it can't make the ", next - done,
             " from update ", done, " to the ", borders.why(done, next), " after update ", next,
             "; use other --steps, --stop-after, --evaluate-every, --save-every or --check");
  }
}

}  // namespace plangrad::parallel
