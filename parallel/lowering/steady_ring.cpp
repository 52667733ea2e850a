// When sums leave, in a ring that sends as many in each time step as in any other.
// Not here: which sums go where (lower_sums.cpp).
// Chapter 08.
#include "parallel/lowering/lowering.h"

namespace paragrad::parallel {

// [snippet departure]
/// When the sum of stage j leaves for its hop-th time: N - 1 hops complete it, N - 1 bring it to
/// all who step with it. Hop h leaves at time 2N + c - j of its training step, where (N/2 and
/// (N-1)/2 rounded down)
///   c = 2h + 1   if N/2 - 1 <= h < N - 2,
///   c = 2h - 1   if N <= h < N + (N-1)/2,
///   c = 2h       else: then the rank that it leaves has just ended a backward of the stage.
/// Modulo 2N, the 2N - 2 hops have all values c but N - 3 and 2N - 3, each once: N - 1 pairs of a c
/// and c + N. For all stages, a hop takes the N time steps up to c, and a pair takes each of the 2N
/// time steps of an update once. So every time step has N - 1 sums.
/// None is late: a partial sum has a time step until the next rank ends its own backward; rank m
/// has the finished one at 4N - 1 - j + 2m at the latest, and steps at 4N + j + 2m. Until then the
/// sum stays there, at a time when the rank has few activations.
int Lowering::departure(int stage, int version, int hop) const {
  const int n = plan_.stages;
  const bool late = n / 2 - 1 <= hop && hop < n - 2;
  const bool early = n <= hop && hop < n + (n - 1) / 2;
  return 2 * n * (version - plan_.first) + 2 * hop + late - early - stage % n;  // tied: as stage 0
}
// [end snippet]

/// Nobody waits for the sums of the last version, which leave at once.
void Lowering::send_sum(int stage, int micro, int from, int to, int hop) {
  const int version = plan_.made_by(micro);
  auto send_now = [=, this] {
    rows_.send(from, {.stage = stage, .micro = micro, .what = Value::gradient_sum}, to);
    if (micro == plan_.last_micro_of(version)) has_sum_.insert({{stage, version}, to});
  };
  const bool is_held = path_ == SumPath::steady_ring && version < plan_.first + plan_.steps &&
                       departure(stage, version, hop) > now();
  if (!is_held) return send_now();
  held_.emplace(departure(stage, version, hop), send_now);
}

void Lowering::send_held() {
  while (!held_.empty() && held_.begin()->first <= now()) {
    held_.begin()->second();
    held_.erase(held_.begin());
  }
}

}  // namespace paragrad::parallel
