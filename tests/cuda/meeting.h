// Two ranks that meet, for tests in which one gives up at a moment that both know.
// Not here: what they do there.
#pragma once

#include "parallel/transports/launch.h"
#include "parallel/transports/transport.h"

namespace plangrad::tests {

/// Until a condition holds.
/// throws: Error after 60 seconds
template <class Condition>
void wait_until(Condition condition) {
  for (parallel::Deadline deadline(60); !condition(); std::this_thread::yield())
    PG_CHECK(deadline.left() > 0, "a rank waits in vain");
}

/// Until both ranks are at this cell, or further.
inline void meet(parallel::Transport& transport, int cell) {
  transport.publish({.cell = cell, .plan = 0});
  wait_until([&] {
    const parallel::Position other = transport.position(1 - transport.rank());
    return other.is_known() && other.cell >= cell;
  });
}

/// Until the other rank has failed.
inline void wait_for_failure(parallel::Transport& transport) {
  wait_until([&] { return transport.failure().has_value(); });
}

}  // namespace plangrad::tests
