// The register of schedules, and what all of them share: checks of layouts, making a plan, moving
// it to another place of the run. Not here: the orders, and messages (lower.cpp).
// Chapter 06.
#include "parallel/schedules/schedule.h"

#include <algorithm>

#include "autograd/error.h"

// Sorted by the names that users type, as lists of them are.
#define PARAGRAD_SCHEDULES(SCHEDULE)                                            \
  SCHEDULE(one_forward_one_backward) /* a pipeline that empties at each step */ \
  SCHEDULE(pipedream_2bw)            /* two versions of the weights */          \
  SCHEDULE(cyclic_v1)                /* microbatches one after the other */     \
  SCHEDULE(cyclic_v2)                /* cyclic_v1 on the freshest weights */    \
  SCHEDULE(data_parallel)            /* every rank holds the model */           \
  SCHEDULE(gpipe)                    /* all forwards, then all backwards */     \
  SCHEDULE(message_driven)           /* in the order in which messages come */  \
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

const std::map<std::string, Setting>& settings() {
  static const std::map<std::string, Setting> all{{"one-device", Setting::one_device},
                                                  {"data", Setting::data},
                                                  {"pipeline", Setting::pipeline},
                                                  {"model", Setting::model},
                                                  {"zero", Setting::zero}};
  return all;
}

namespace {

void check_sizes(const Layout& layout) {
  PG_CHECK(layout.stages > 0 && layout.width > 0 && layout.microbatches > 0 && layout.steps > 0 &&
               layout.first >= 0,
           "a plan needs at least one stage, replica, microbatch and step; got ", layout.stages,
           " stages, width ", layout.width, ", ", layout.microbatches, " microbatches, ",
           layout.steps, " steps");
  constexpr double most = 1e8;
  double micros = 1.0 * layout.width * layout.microbatches;
  PG_CHECK(micros * (layout.first + 1.0 * layout.steps) < most &&
               micros * layout.stages * layout.steps < most,
           "this plan counts to microbatch ", micros * (layout.first + 1.0 * layout.steps), " on ",
           layout.stages, " stages; at most ", most, " microbatches and forwards are possible. ",
           "Use a smaller --first, --steps or --microbatches");
}

/// Checks the ZeRO level. A cyclic schedule's own check says what it has instead of levels.
void check_zero(const Schedule& schedule, const Layout& layout) {
  PG_CHECK(layout.zero >= 0 && layout.zero <= 3, "ZeRO has levels 1 to 3, not ", layout.zero);
  if (schedule.cyclic) return;
  PG_CHECK(layout.zero == 0 || layout.width > 1, "ZeRO shares the state of replicas; with one ",
           "there is nothing to share. Use a --data-parallel of at least 2");
  PG_CHECK(layout.zero <= schedule.highest_zero, "ZeRO ", layout.zero, " can't be combined with ",
           schedule.name, ": a pipeline adds to its gradients and reads its weights with every ",
           "microbatch, and would send them every time. Use --zero 1, or --schedule data");
}

/// The computations that a schedule with homes writes: lowering adds all else, the steps, too.
Plan without_messages(Plan plan) {
  for (Row& row : plan.rows)
    std::erase_if(row, [](const Instruction& x) {
      return !uses_weights(x) && !(drops(x) && x.what == Value::activation);
    });
  return plan;
}

}  // namespace

int pipeline_ranks(const Layout& layout) { return layout.width * layout.stages; }

void check_layout(const Schedule& schedule, const Layout& layout) {
  check_sizes(layout);
  check_zero(schedule, layout);
  if (schedule.check) schedule.check(layout);
}

Plan make_plan(const std::string& name, const Layout& layout) {
  const Schedule& schedule = find_schedule(name);
  check_layout(schedule, layout);
  Plan plan = schedule.make(layout);
  if (layout.recompute) add_recomputation(plan);
  plan = lower(std::move(plan), schedule.sum_path ? schedule.sum_path(layout) : SumPath::group);
  plan.codec = layout.codec;
  plan.channel = layout.channel;
  check_codecs(plan);
  return plan;
}

Plan moved_by(Plan plan, int steps) {
  bool merged = false;  // whether negative versions became version 0
  plan.first += steps;
  for (Row& row : plan.rows)
    for (Instruction& x : row) {
      if (x.micro >= 0) x.micro += steps * plan.per_step;
      if (x.version < 0) continue;
      merged |= x.version + steps < 0;
      x.version = std::max(x.version + steps, 0);
    }
  // Merged versions would send travelling weights twice, so messages are added anew.
  if (merged && !plan.home.empty()) return lower(without_messages(std::move(plan)), SumPath::ring);
  return plan;
}

}  // namespace paragrad::parallel
