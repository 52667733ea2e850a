// The schedules that have replicas and microbatches as asked, and the layouts that each can have.
// Not here: cyclic ones (cyclic_plan_test.cpp).
#pragma once

#include "parallel/schedules/schedule.h"

namespace plangrad::tests {

inline std::map<std::string, const parallel::Schedule*> ordinary_schedules() {
  std::map<std::string, const parallel::Schedule*> all;
  for (const parallel::Schedule* each : parallel::schedules())
    if (!each->cyclic) all[each->name] = each;
  return all;
}

/// Whether the schedule can have such a layout.
inline bool takes(const parallel::Schedule& schedule, const parallel::Layout& layout) {
  try {
    parallel::check_layout(schedule, layout);
    return true;
  } catch (const autograd::Error&) {
    return false;
  }
}
inline bool takes(const std::string& name, const parallel::Layout& layout) {
  return takes(parallel::find_schedule(name), layout);
}

/// The layout with as many more stages as the schedule needs.
inline parallel::Layout fitted(const std::string& name, parallel::Layout layout) {
  for (const int most = layout.stages + 4; !takes(name, layout) && layout.stages < most;)
    ++layout.stages;
  return layout;
}

/// Whether the schedule of this name splits backwards or has several stages on a rank. Grids take
/// few of its layouts, as it has tests with telling ones (chunked_engine_test, chunked_forms_test).
inline bool is_chunked(const std::string& name) {
  return parallel::find_schedule(name).chunks > 1 || name.starts_with("zb-") || name == "recycle";
}

/// Whether the schedule of this name has settings, and as many microbatches as stages.
inline bool is_cyclic(const std::string& name) { return parallel::find_schedule(name).cyclic; }

}  // namespace plangrad::tests
