// The schedules that go with any number of stages, replicas and microbatches.
// Not here: cyclic ones (cyclic_test.cpp).
#pragma once

#include "parallel/schedules/schedule.h"

namespace paragrad::tests {

inline std::map<std::string, parallel::Schedule> ordinary_schedules() {
  auto all = parallel::schedules();
  std::erase_if(all, [](const auto& entry) { return parallel::is_cyclic(entry.first); });
  return all;
}

}  // namespace paragrad::tests
