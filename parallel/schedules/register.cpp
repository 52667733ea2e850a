// The register of schedules: a line for each file of this folder that has some.
// Not here: what they are (schedule.h).
// Chapter 06.
#include "autograd/error.h"
#include "parallel/schedules/schedule.h"

// Sorted by the names that users type, as lists of them are.
#define PARAGRAD_SCHEDULES(SCHEDULE)                                              \
  SCHEDULE(one_forward_one_backward) /* a pipeline that empties at each step */   \
  SCHEDULE(pipedream_2bw)            /* two versions of the weights */            \
  SCHEDULE(cyclic_v1)                /* microbatches one after the other */       \
  SCHEDULE(cyclic_v2)                /* so, on weights as fresh as they can be */ \
  SCHEDULE(data_parallel)            /* every rank holds the model */             \
  SCHEDULE(gpipe)                    /* all forwards, then all backwards */       \
  SCHEDULE(message_driven)           /* in the order in which messages come */    \
  SCHEDULE(pipedream)                /* an update after each microbatch */

namespace paragrad::parallel {

#define DECLARE(schedule) extern const Schedule schedule##_schedule;
PARAGRAD_SCHEDULES(DECLARE)

const std::vector<const Schedule*>& schedules() {
#define ADDRESS(schedule) &schedule##_schedule,
  static const std::vector<const Schedule*> all{PARAGRAD_SCHEDULES(ADDRESS)};
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
