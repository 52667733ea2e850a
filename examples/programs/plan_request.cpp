// A plan comes from a file or from a schedule; a request has what is not usual. Chapter 06.
#include "examples/programs/plan_request.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ranges>

#include "parallel/plan/plan.h"

namespace plangrad::examples {

using namespace parallel;

void PlanRequest::check_no_schedule(const CLI::App& command, const std::string& files) const {
  for (const CLI::Option* option : command.get_options()) {
    const bool cuts_model = option->get_name() == "--cuts" && !model.model.empty();
    const bool is_of_plan = option->get_group() == "Schedule" && !cuts_model;
    PG_CHECK(!is_of_plan || option->count() == 0, files, " and ", option->get_name(),
             ": give a plan file or schedule flags, not both");
  }
}

Plan PlanRequest::plan(const CLI::App& command) const {
  const std::string& file = schedule.plan_file;
  PG_CHECK(!file.empty() || !schedule.schedule.empty(),
           "no plan given: use --schedule NAME, or a plan's text file");
  if (file.empty()) return schedule_plan();
  std::error_code none;
  PG_CHECK(std::filesystem::exists(file, none) || file == "-" ||
               std::ranges::count(schedule_names(), file) == 0,
           "there is no file ", file, "; did you mean --schedule ", file, '?');
  check_no_schedule(command, file);
  return read_plan(file);
}

/// About how many cells a plan has, or as many as take as long: a forward brings 8, a sum over
/// replicas a message from each to each, and lowering looks at each rank at each moment. The sum of
/// tied weights has twice as many members, and so has each in a plan that goes both ways.
static double cells_of(const Schedule& schedule, const Layout& asked) {
  const Layout layout = with_defaults(schedule, asked);
  const double stages = 1.0 * layout.stages * layout.copies(), depth = stages / layout.chunks;
  const double width = layout.width, forwards = width * layout.microbatches * layout.stages;
  const double members = width * layout.copies(), sums = layout.stages + (layout.tied ? 4 : 0);
  const double looks = schedule.has_order ? width * depth * depth / 4 : forwards * width * depth;
  return layout.steps * std::max({8 * forwards, 2.1 * members * members * sums, looks});
}

/// Checks that a plan is not too large to be made and simulated in a few seconds.
static void check_cells(const Schedule& schedule, Layout layout) {
  const double cells = cells_of(schedule, layout);
  if (cells <= most_cells) return;
  using Size = std::pair<int Layout::*, const char*>;
  const Size sizes[]{{&Layout::stages, "--stages"},
                     {&Layout::microbatches, "--microbatches"},
                     {&Layout::width, "--data-parallel"},
                     {&Layout::steps, "--steps"}};
  const auto [size, flag] =
      *std::ranges::max_element(sizes, {}, [&](const Size& each) { return layout.*each.first; });
  const auto fits = [&, size = size](int each) {
    layout.*size = each;
    if (schedule.cyclic) layout.microbatches = layout.stages;
    return cells_of(schedule, layout) <= most_cells;
  };
  const int most = *std::ranges::partition_point(std::views::iota(1, int(layout.*size)), fits) - 1;
  throw autograd::Error(text("this plan would have about ", cells, " cells, and ", most_cells,
                             " are possible: use ", flag, " ", std::max(most, 1), " or less"));
}

Plan PlanRequest::schedule_plan() const {
  Layout layout = schedule.found();
  if (schedule.endless && !schedule.gives("steps")) layout.steps = 4;  // bars are found in these
  if (!model.model.empty()) layout.tied = model.is_tied(layout.stages);
  check_cells(schedule.behaviour(), layout);
  return schedule.plan_with(layout);
}

void print_text(const std::string& text) { std::cout << printable(text); }

void print_json(const nlohmann::json& json) { std::cout << json.dump(2, ' ', true) << '\n'; }

std::string PlanRequest::title() const {
  if (schedule.plan_file.empty()) return schedule.title();
  return schedule.plan_file == "-" ? "standard input" : schedule.plan_file;
}

using Json = nlohmann::json;

template <class Object>
static void add(const std::vector<const parallel::Field<Object>*>& fields, const Object& object,
                Json& json, const std::set<std::string>& always = {}) {
  for (const parallel::Field<Object>* field : fields)
    if (always.contains(field->name) || field->is_set(object))
      json[field->name] = json_of(field->kind, field->show(object));
}

Json player_request(const ScheduleFlags& flags, const parallel::Plan& plan,
                    const parallel::Costs& costs) {
  Json json = {{"costs", Json::object()}};
  add(parallel::cost_fields(), costs, json["costs"]);
  if (!flags.plan_file.empty()) {
    json["plan"] = print(plan);
    json["title"] = flags.plan_file == "-"
                        ? "standard input"
                        : std::filesystem::path(flags.plan_file).filename().string();
    return json;
  }
  parallel::PlanSpec request = flags;
  request.layout = flags.found();
  std::set<std::string> always = flags.given;
  always.insert({"stages", "microbatches", "steps"});
  add(parallel::spec_fields(), request, json, always);
  if (flags.cyclic()) json.erase("microbatches");
  if (flags.endless) json.erase("steps");
  return json;
}

}  // namespace plangrad::examples
