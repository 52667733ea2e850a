// The schedules that go with any number of stages, replicas and microbatches.
// Not here: cyclic ones (cyclic_plan_test.cpp).
#pragma once

#include "parallel/schedules/schedule.h"

namespace paragrad::tests {

inline std::map<std::string, const parallel::Schedule*> ordinary_schedules() {
  std::map<std::string, const parallel::Schedule*> all;
  for (const parallel::Schedule* each : parallel::schedules())
    if (!each->cyclic) all[each->name] = each;
  return all;
}

/// Whether the schedule of this name has settings, and as many microbatches as stages.
inline bool is_cyclic(const std::string& name) { return parallel::find_schedule(name).cyclic; }

}  // namespace paragrad::tests
