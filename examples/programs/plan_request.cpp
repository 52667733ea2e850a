// Makes the plan that a command line asks for. Chapter 06.
#include "examples/programs/plan_request.h"

#include <optional>

#include "examples/programs/program.h"
#include "parallel/plan/endless.h"

namespace plangrad::examples {

using namespace parallel;

void PlanRequest::add_plan_flags(CLI::App& command) {
  Flags flags(command);
  schedule.add_flags(flags);
  flags.whole("--steps", steps, 1,
              "updates of the plan; in pipedream, times --microbatches "
              "(default: 1, or 8 for cyclic schedules, to show their steady state)");
  flags.yes("--endless", endless,
            "make the plan endless: between two bars in each row is a body, which any number of "
            "updates repeats");
  flags.whole("--first", first, 0, "updates done before the plan begins");
  flags.yes("--clip", clip, "let each update wait for the norm of the whole gradient");
  flags.yes("--tied", tied, "let the first and the last stage share a tensor");
}

Plan PlanRequest::plan(const CLI::App& command) const {
  const std::string& file = schedule.plan_file;
  for (const CLI::Option* option : command.get_options())
    PG_CHECK(file.empty() || option->get_group() != "Schedule" || option->count() == 0, file,
             " and ", option->get_name(), ": give a plan file or schedule flags, not both");
  if (!file.empty()) return read_plan(file);
  PG_CHECK(!schedule.schedule.empty(), "no plan given: use --schedule NAME, or a plan's text file");
  return made();
}

Plan PlanRequest::made() const {
  return endless ? endless_plan(layout()) : make_plan(schedule.schedule, layout());
}

Layout PlanRequest::layout() const {
  Layout layout = schedule.layout();
  layout.steps = steps > 0 ? steps : schedule.cyclic() ? 8 : 1;
  layout.first = first;
  layout.clip = clip;
  layout.tied = tied;
  return layout;
}

Plan PlanRequest::endless_plan(const Layout& layout) const {
  PG_CHECK(steps == 0, "--steps ", steps, " and --endless: an endless plan has any number of ",
           "updates; leave out one of the two");
  PG_CHECK(schedule.behaviour().has_order, "--endless: the order of the schedule ",
           schedule.schedule, " depends on timing, so no part of it repeats; use --steps");
  std::optional<Plan> found = make_endless(schedule.schedule, layout);
  PG_CHECK(found, "--endless: the rows of ", schedule.title(), " with ", layout.stages,
           " stages do not repeat within 12 updates; use --steps, or fewer --stages");
  return *std::move(found);
}

std::string PlanRequest::title() const {
  if (schedule.plan_file.empty()) return schedule.title();
  return schedule.plan_file == "-" ? "standard input" : schedule.plan_file;
}

}  // namespace plangrad::examples
