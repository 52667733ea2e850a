// The register of schedules: a line for each file of this folder that has some.
// Not here: what they are (schedule.h).
// Chapter 06.
#include "autograd/error.h"
#include "parallel/schedules/schedule.h"

// Sorted by the names that users type, as lists of them are.
#define FOR_EACH_SCHEDULE(apply)                                                         \
  apply(one_forward_one_backward) apply(pipedream_2bw) apply(cyclic_v1) apply(cyclic_v2) \
      apply(data_parallel) apply(gpipe) apply(message_driven) apply(pipedream)

namespace paragrad::parallel {

#define DECLARE(schedule) extern const Schedule schedule##_schedule;
FOR_EACH_SCHEDULE(DECLARE)

const std::vector<const Schedule*>& schedules() {
#define ADDRESS(schedule) &schedule##_schedule,
  static const std::vector<const Schedule*> all{FOR_EACH_SCHEDULE(ADDRESS)};
  return all;
}

const Schedule& find_schedule(const std::string& name) {
  std::string names;
  for (const Schedule* schedule : schedules()) {
    if (schedule->name == name) return *schedule;
    names += std::string(" ") + schedule->name;
  }
  throw autograd::Error(autograd::text("there is no schedule \"", name, "\"; there are", names));
}

}  // namespace paragrad::parallel
