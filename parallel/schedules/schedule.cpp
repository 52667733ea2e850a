// The schedules by name, and what can be asked of them.
// Not here: the orders themselves (schedules/), and messages (lower.cpp).
// Chapter 06.
#include "parallel/schedules/schedule.h"

#include <algorithm>

#include "autograd/error.h"
#include "parallel/lowering/lower.h"
#include "parallel/plan/plan_codecs.h"

namespace paragrad::parallel {

const std::map<std::string, Schedule>& schedules() {
  static const std::map<std::string, Schedule> all{{"data", data_parallel},
                                                   {"gpipe", gpipe},
                                                   {"1f1b", one_forward_one_backward},
                                                   {"pipedream", pipedream},
                                                   {"2bw", pipedream_2bw},
                                                   {"cyclic-v1", cyclic_v1},
                                                   {"cyclic-v2", cyclic_v2},
                                                   {"message-driven", message_driven}};
  return all;
}

bool is_cyclic(const std::string& schedule) { return schedule.rfind("cyclic", 0) == 0; }

const std::map<std::string, Setting>& settings() {
  static const std::map<std::string, Setting> all{{"one-device", Setting::one_device},
                                                  {"data", Setting::data},
                                                  {"pipeline", Setting::pipeline},
                                                  {"model", Setting::model},
                                                  {"zero", Setting::zero}};
  return all;
}

namespace {

Schedule find_schedule(const std::string& name) {
  auto found = schedules().find(name);
  if (found != schedules().end()) return found->second;
  std::string names;
  for (const auto& [known, schedule] : schedules()) names += " " + known;
  throw autograd::Error(autograd::text("there is no schedule \"", name, "\"; there are", names));
}

void check(const Layout& layout) {
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
           layout.stages, " stages; at most ", most, " of them, and forwards, are made for. ",
           "Use a smaller --first, --steps or --microbatches");
}

void check_zero(const std::string& schedule, const Layout& layout) {
  PG_CHECK(layout.zero >= 0 && layout.zero <= 3, "ZeRO has stages 1 to 3, not ", layout.zero);
  PG_CHECK(layout.zero == 0 || is_cyclic(schedule) || layout.width > 1, "ZeRO shares the state of ",
           "replicas; with one there is nothing to share. Use a --data-parallel of at least 2");
  PG_CHECK(layout.zero <= 1 || schedule == "data" || is_cyclic(schedule), "ZeRO ", layout.zero,
           " does not go with ", schedule, ": a pipeline adds to its gradients and reads its ",
           "weights with every microbatch, and would send them every time. Use --zero 1, or ",
           "--schedule data");
  PG_CHECK(layout.zero == 0 || schedule != "pipedream" || !layout.tied || !layout.clip,
           "pipedream with ZeRO, clipping and tied embeddings hangs: stage 0 would wait for the ",
           "last stage's step, that for the norm, and that for stage 0. Leave out one of them");
}

SumPath path_of(const std::string& schedule, const Layout& layout) {
  if (!is_cyclic(schedule)) return SumPath::group;
  // The timetable has forwards and backwards of one time step, each once.
  const bool steady = schedule == "cyclic-v1" && layout.setting == Setting::data &&
                      layout.gap == 2 && !layout.recompute;
  return steady ? SumPath::steady_ring : SumPath::ring;
}

/// What a schedule with homes writes, whose steps lowering places, too.
Plan without_messages(Plan plan) {
  for (Row& row : plan.rows)
    std::erase_if(row, [](const Instruction& x) {
      return !uses_weights(x) && !(drops(x) && x.what == Value::activation);
    });
  return plan;
}

}  // namespace

Plan make_plan(const std::string& schedule, const Layout& layout) {
  Schedule make = find_schedule(schedule);
  check(layout);
  check_zero(schedule, layout);
  Plan plan = make(layout);
  if (layout.recompute) add_recomputation(plan);
  plan = lower(std::move(plan), path_of(schedule, layout));
  plan.codec = layout.codec;
  plan.channel = layout.channel;
  check_codecs(plan);
  return plan;
}

Plan moved_by(Plan plan, int steps) {
  bool merged = false;  // versions before the first, with the first
  plan.first += steps;
  for (Row& row : plan.rows)
    for (Instruction& x : row) {
      if (x.micro >= 0) x.micro += steps * plan.per_step;
      if (x.version < 0) continue;
      merged |= x.version + steps < 0;
      x.version = std::max(x.version + steps, 0);
    }
  // Weights that travel would come twice: merged versions have a way of their own.
  if (merged && !plan.home.empty()) return lower(without_messages(std::move(plan)), SumPath::ring);
  return plan;
}

}  // namespace paragrad::parallel
