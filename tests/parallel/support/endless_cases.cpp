// The grid of schedules, sizes and options, and a few that stand for all. See endless_cases.h.
#include "tests/parallel/support/endless_cases.h"

#include "autograd/error.h"
#include "parallel/plan/plan.h"
#include "tests/parallel/support/ordinary_schedules.h"

namespace plangrad::tests {
namespace {

using namespace parallel;

/// Adds a case for every set of options that the schedule has; a rank alone has nothing to tie.
void add_with_options(std::vector<EndlessCase>& cases, const std::string& schedule, Layout layout) {
  for (int options = 0; options < 8; ++options) {
    layout.recompute = (options & 1) != 0;
    layout.clip = (options & 2) != 0;
    layout.tied = (options & 4) != 0;
    try {
      check_layout(find_schedule(schedule), layout);
    } catch (const autograd::Error&) {
      continue;
    }
    cases.push_back({schedule, layout});
  }
}

void add_ordinary(std::vector<EndlessCase>& cases) {
  for (const Schedule* schedule : schedules()) {
    if (schedule->cyclic || !schedule->has_order) continue;
    const bool few = is_chunked(schedule->name);
    for (int stages : few ? std::vector{4} : std::vector{1, 2, 3, 4})
      for (int width : {1, 2})
        for (int microbatches : few ? std::vector{4} : std::vector{1, 2, 4})
          for (int first : {0, 3})
            if (microbatches == 1 || first == 0)
              add_with_options(
                  cases, schedule->name,
                  {.stages = stages, .width = width, .microbatches = microbatches, .first = first});
    for (int zero = 1; zero <= schedule->highest_zero; ++zero)
      for (int microbatches : {1, 3})
        add_with_options(
            cases, schedule->name,
            {.stages = 3, .width = 2, .microbatches = microbatches, .first = zero, .zero = zero});
  }
}

void add_cyclic(std::vector<EndlessCase>& cases) {
  for (const Schedule* schedule : schedules()) {
    if (!schedule->cyclic) continue;
    for (const auto& [name, setting] : settings())
      for (int stages : {1, 2, 3, 4})
        for (int gap : {2, 3})
          for (int first : {0, 2})
            if (gap == 2 || has_turns(setting))
              add_with_options(cases, schedule->name,
                               {.stages = stages, .first = first, .setting = setting, .gap = gap});
  }
}

}  // namespace

std::string describe(const EndlessCase& endless) {
  const Layout& layout = endless.layout;
  std::string setting;
  for (const auto& [name, each] : settings())
    if (find_schedule(endless.schedule).cyclic && each == layout.setting) setting = name;
  return autograd::text(endless.schedule, ' ', setting, ": ", layout.stages, " stages, width ",
                        layout.width, ", ", layout.microbatches, " microbatches, first ",
                        layout.first, ", gap ", layout.gap, ", ZeRO ", layout.zero,
                        layout.recompute ? ", recomputed" : "", layout.clip ? ", clipped" : "",
                        layout.tied ? ", tied" : "");
}

std::vector<EndlessCase> endless_cases() {
  std::vector<EndlessCase> cases;
  add_ordinary(cases);
  add_cyclic(cases);
  return cases;
}

std::vector<EndlessCase> few_endless_cases() {
  const Layout all{.stages = 3,
                   .width = 2,
                   .microbatches = 2,
                   .first = 2,
                   .recompute = true,
                   .clip = true,
                   .tied = true};
  auto cyclic = [](int stages, Setting setting, bool clip = false) {
    return Layout{.stages = stages, .clip = clip, .setting = setting};
  };
  return {{"2bw", {.stages = 3, .microbatches = 3}},
          {"2bw", {.stages = 4, .microbatches = 2}},
          {"2bw", all},
          {"paci", {.stages = 3, .microbatches = 1}},
          {"paci", {.stages = 3, .width = 2, .microbatches = 2, .recompute = true}},
          {"pipedream", {.stages = 3, .width = 2, .tied = true}},
          {"1f1b", {.stages = 3, .microbatches = 3}},
          {"gpipe", all},
          {"data", {.stages = 2, .width = 3, .microbatches = 2, .clip = true}},
          {"data", {.stages = 2, .width = 2, .microbatches = 2, .zero = 2}},
          {"data", {.stages = 3, .width = 2, .microbatches = 1, .zero = 3}},
          {"cyclic-v1", cyclic(3, Setting::data, true)},
          {"cyclic-v2", cyclic(3, Setting::data)},
          {"cyclic-v2", cyclic(3, Setting::pipeline)},
          {"cyclic-v2", cyclic(3, Setting::model)},
          {"cyclic-v2", cyclic(3, Setting::zero)},
          {"cyclic-v1", cyclic(2, Setting::one_device)}};
}

std::optional<Plan> unrolled_if_any(const Plan& plan, int bodies) {
  if (plan.steps + (bodies - 1) * plan.period <= 0) return std::nullopt;
  return unrolled(plan, bodies);
}

}  // namespace plangrad::tests
