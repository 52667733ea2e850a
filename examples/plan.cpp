// plan: shows, verifies, simulates and draws plans, made by a schedule or read from a text file.
// Not here: the work itself (parallel/). A plan needs no model and no data.
// Chapter 06.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "examples/common/cost_flags.h"
#include "examples/common/plan_facts.h"
#include "examples/common/program.h"
#include "examples/common/schedule_flags.h"
#include "nn/checkpoint/file.h"
#include "parallel/drawing/breakdown_table.h"
#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/plan/endless.h"
#include "parallel/simulation/steady_state.h"
#include "parallel/verifier/verify.h"

namespace {

using namespace paragrad::parallel;
using namespace paragrad::examples;

/// The flags of all commands; each command uses some of them.
struct Request {
  ScheduleFlags schedule;
  CostFlags costs;
  int steps = 0, first = 0, columns = 40;
  bool clip = false, tied = false, table = false, json = false, time_steps = false;
  bool endless = false, critical_path = false;
  FigureOptions figure;
  std::string out;

  /// Adds the plan's file, and the flags that describe a schedule.
  void add_plan_flags(CLI::App& command);
  /// throws: Error if `command` was given both, or neither
  Plan plan(const CLI::App& command) const;
  Plan endless_plan(const Layout& layout) const;
  std::string title() const;
};

void Request::add_plan_flags(CLI::App& command) {
  Flags flags(command);
  flags.words("FILE", schedule.plan_file, "",
              "file with a plan's text, instead of schedule flags; - is standard input");
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

Plan Request::plan(const CLI::App& command) const {
  const std::string& file = schedule.plan_file;
  for (const CLI::Option* option : command.get_options())
    PG_CHECK(file.empty() || option->get_group() != "Schedule" || option->count() == 0, file,
             " and ", option->get_name(), ": give a plan file or schedule flags, not both");
  if (!file.empty()) return read_plan(file);
  PG_CHECK(!schedule.schedule.empty(), "no plan given: use --schedule NAME, or a plan's text file");
  Layout layout = schedule.layout();
  layout.steps = steps > 0 ? steps : schedule.cyclic() ? 8 : 1;
  layout.first = first;
  layout.clip = clip;
  layout.tied = tied;
  return endless ? endless_plan(layout) : make_plan(schedule.schedule, layout);
}

Plan Request::endless_plan(const Layout& layout) const {
  PG_CHECK(steps == 0, "--steps ", steps, " and --endless: an endless plan has any number of ",
           "updates; leave out one of the two");
  PG_CHECK(schedule.behaviour().has_order, "--endless: the order of the schedule ",
           schedule.schedule, " depends on timing, so no part of it repeats; use --steps");
  std::optional<Plan> found = make_endless(schedule.schedule, layout);
  PG_CHECK(found, "--endless: the rows of ", schedule.title(), " with ", layout.stages,
           " stages do not repeat within 12 updates; use --steps, or fewer --stages");
  return *std::move(found);
}

std::string Request::title() const {
  if (schedule.plan_file.empty()) return schedule.title();
  return schedule.plan_file == "-" ? "standard input" : schedule.plan_file;
}

void print_lines(const Lines& lines) {
  for (const auto& [name, value] : lines) std::cout << fmt::format("{:<22}{}\n", name, value);
}

/// The facts of a plan and what it takes at these costs, for programs.
nlohmann::json facts(const VerifiedPlan& verified, const Costs& costs) {
  nlohmann::json all = to_json(verified, simulate(verified, costs));
  if (verified.plan().is_endless()) all["steady_state"] = to_json(steady_state(verified, costs));
  return all;
}

/// Says how long the proof takes that an endless plan is right at every length.
std::string proof_line(const Plan& plan) {
  const auto begin = std::chrono::steady_clock::now();
  verify(plan);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return text("# all lengths verified in ", seconds_text(taken.count()), '\n');
}

void print_json(const nlohmann::json& json) { std::cout << json.dump(2) << '\n'; }

/// Prints the plan with its facts, or with the rule that it breaks: a wrong plan is shown, too.
void show_json(const Plan& plan) {
  nlohmann::json shown = to_json(plan);
  try {
    const VerifiedPlan verified = verify(plan);
    shown["facts"] = facts(verified, Costs());
  } catch (const PlanError& error) {
    shown["facts"] = to_json(error);
  }
  print_json(shown);
}

/// Prints the plan's text. The timetable follows as comments, so that the output is still a plan.
void show_plan(const Request& request, const Plan& plan) {
  PG_CHECK(!request.json || !request.table, "--json has no timetable; leave out --table");
  if (request.json) return show_json(plan);
  std::cout << print(plan);
  if (request.endless) std::cout << proof_line(plan);
  if (!request.table && !::isatty(STDOUT_FILENO)) return;
  std::istringstream table(draw_text(simulate_two_bodies(plan, Costs()), request.columns));
  for (std::string line; std::getline(table, line);) std::cout << "# " << line << '\n';
}

Lines times(const Request& request, const VerifiedPlan& verified) {
  const Costs costs = request.costs.of(verified.plan());
  const Timeline timeline = simulate(verified, costs);
  Lines all = lines(timeline);
  auto add = [&all](Lines more) { all.insert(all.end(), more.begin(), more.end()); };
  if (verified.plan().is_endless()) add(lines(steady_state(verified, costs)));
  if (request.time_steps) add(lines(time_steps(verified.plan(), timeline)));
  return all;
}

void verify_plan(const Request& request, const Plan& plan) {
  const VerifiedPlan verified = verify(plan);
  if (request.json) return print_json(facts(verified, request.costs.of(verified.plan())));
  const Lines of_time = times(request, verified);
  std::cout << "verified" << (plan.is_endless() ? " at every length\n" : "\n");
  print_lines(lines(verified));
  print_lines(of_time);
}

void simulate_plan(const Request& request, const Plan& plan) {
  const VerifiedPlan verified = verify(plan);
  if (request.json) return print_json(facts(verified, request.costs.of(verified.plan())));
  print_lines(times(request, verified));
  const Timeline timeline = simulate(verified, request.costs.of(verified.plan()));
  const CriticalPath path = critical_path(verified.plan(), timeline);
  std::cout << fmt::format("{:<22}{}\n\n", "critical path", describe(path))
            << print(breakdown_table("", rows_of(breakdown(verified.plan(), timeline))));
}

/// The plan that a drawing shows: of an endless one, head, two bodies and tail.
Plan drawn(const Plan& plan) { return plan.is_endless() ? unrolled(plan, 2) : plan; }

Table where_the_time_goes(const Plan& plan, const Timeline& timeline) {
  return breakdown_table("Where the time goes", rows_of(breakdown(plan, timeline)));
}

/// Makes an HTML page with the facts beside the timeline.
std::string page(const Request& request, const VerifiedPlan& verified, const Timeline& timeline) {
  const bool endless = verified.plan().is_endless();
  Report report;
  report.title = request.title();
  report.facts = lines(verified);
  for (auto& line : lines(timeline)) report.facts.push_back(line);
  report.panels = {
      {endless ? "simulated: head, two bodies, tail" : "simulated", timeline, request.figure.path}};
  report.tables = {where_the_time_goes(drawn(verified.plan()), timeline)};
  if (timeline.bytes() > 0) {
    report.traffic = traffic(timeline);
    report.sent = sendings(verified.plan(), timeline);
  }
  return draw_html(report);
}

void draw_plan(const Request& asked_for, const Plan& plan) {
  Request request = asked_for;
  PG_CHECK(!request.json || !request.out.empty(),
           "--json prints the facts; the drawing needs a file: give --out FILE");
  const FigureOptions usual, &asked = request.figure;
  const char* flag = asked.alive                      ? "--alive"
                     : asked.seconds != usual.seconds ? "--seconds"
                     : asked.width != usual.width     ? "--width"
                                                      : nullptr;
  PG_CHECK(!flag || request.out.ends_with(".svg"), flag,
           " changes a figure; add --out FILE.svg, or leave out ", flag);
  PG_CHECK(
      !request.critical_path || request.out.ends_with(".svg") || request.out.ends_with(".html"),
      "--critical-path marks cells of a figure or page; add --out FILE.svg or FILE.html, or ",
      "leave out --critical-path");
  const VerifiedPlan verified = verify(plan);
  const Costs costs = request.costs.of(verified.plan());
  const Timeline timeline = simulate_two_bodies(verified.plan(), costs);
  if (request.critical_path) request.figure.path = critical_path(drawn(plan), timeline).records;
  const std::string ending = std::filesystem::path(request.out).extension();
  const std::string drawing = ending == ".svg"    ? draw_svg(timeline, request.figure)
                              : ending == ".html" ? page(request, verified, timeline)
                              : ending == ".json" ? draw_trace(timeline)
                                                  : draw_text(timeline, request.columns);
  if (request.out.empty()) {
    std::cout << drawing;
    return;
  }
  paragrad::nn::write_file(request.out, drawing);
  if (request.json) {
    nlohmann::json all = facts(verified, costs);
    all["file"] = request.out;
    return print_json(all);
  }
  std::cout << "wrote " << request.out << ": " << request.title() << ", makespan "
            << seconds_text(timeline.makespan())
            << (plan.is_endless() ? " of head, two bodies and tail\n" : "\n");
}

std::string check_ending(const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension();
  bool known = ending == ".svg" || ending == ".html" || ending == ".json" || ending == ".txt";
  return known ? "" : "expected a file that ends in .svg, .html, .json or .txt, got " + file;
}

using Command = void (*)(const Request&, const Plan&);

/// Describes the four commands to `app`.
std::map<CLI::App*, Command> add_commands(CLI::App& app, Request& request) {
  std::map<CLI::App*, Command> commands;
  auto add = [&](const char* name, const char* what, const char* example, Command run) {
    CLI::App& command = *app.add_subcommand(name, what);
    command.footer(text("Example: plan ", name, ' ', example));
    request.add_plan_flags(command);
    if (run != show_plan) request.costs.add_flags(command);
    commands[&command] = run;
    Flags flags(command);
    flags.group("Output");
    return flags;
  };
  const char* columns = "width of the timetable; a column is the shortest forward or backward";
  const char* json = "print the facts as JSON";

  Flags show = add("show", "Prints a plan as text, which can be edited and read back.",
                   "--schedule 1f1b --stages 4 --microbatches 8 > my.plan", show_plan);
  show.yes("--table", request.table, "add a timetable, as on a terminal; computations take 1");
  show.whole("--columns", request.columns, 1, columns);
  show.yes("--json", request.json, "print the header, the rows and the facts as JSON");

  const char* time_steps = "print what each time step holds in the middle of the plan";
  Flags verify =
      add("verify", "Checks a plan against every rule, and prints the facts that follow from it.",
          "my.plan", verify_plan);
  Flags simulate =
      add("simulate", "Predicts how long a plan takes.",
          "my.plan --forward 0.01 --backward 0.02 --bandwidth 1e9 --activation-bytes 4000000",
          simulate_plan);
  for (Flags* flags : {&verify, &simulate}) {
    flags->yes("--json", request.json, json);
    flags->yes("--time-steps", request.time_steps, time_steps);
  }

  Flags draw =
      add("draw", "Draws a plan's timeline.",
          "--schedule 2bw --stages 4 --microbatches 4 --steps 3 --out 2bw.html", draw_plan);
  draw.words(
          "--out", request.out, "FILE",
          "write a figure (.svg), a page to explore (.html), a trace for ui.perfetto.dev (.json) "
          "or text (.txt); without --out, print text")
      ->check(CLI::Validator(check_ending, ""));
  draw.yes("--alive", request.figure.alive,
           "below a figure, draw the activations alive on all ranks");
  draw.yes("--critical-path", request.critical_path,
           "in a figure or page, mark the chain of instructions that sets the plan's length");
  draw.number("--seconds", request.figure.seconds, 0, 1e9,
              "length of a figure's time axis; equal with --width, it makes figures comparable "
              "(default: the plan's)");
  draw.number("--width", request.figure.width, 0, 1e5,
              "width of a figure in pixels (default: what suits its cells)");
  draw.whole("--columns", request.columns, 1, columns);
  draw.yes("--json", request.json, "print the facts and the file's name as JSON");
  return commands;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Shows, verifies, simulates and draws plans. A plan says what each rank of a training run\n"
      "does, in which order, and with which version of the weights. It comes from a schedule or\n"
      "from a text file.",
      "plan");
  app.footer(
      "plan COMMAND --help lists its flags.\n"
      "Example: plan show --schedule 2bw --stages 4 --microbatches 4 --steps 3 | plan verify -");
  app.require_subcommand(0, 1);
  Request request;
  const std::map<CLI::App*, Command> commands = add_commands(app, request);
  return run_program(app, [&] {
    app.parse(argc, argv);
    PG_CHECK(!app.get_subcommands().empty(),
             "no command given: use show, verify, simulate or draw");
    CLI::App* command = app.get_subcommands().front();
    try {
      commands.at(command)(request, request.plan(*command));
      // Standard output may be a plan or JSON.
      if (const std::string note = request.schedule.note(); !note.empty())
        std::cerr << "note: " << note << '\n';
      return 0;
    } catch (const PlanError& error) {
      if (!request.json) throw;
      std::cout << to_json(error).dump(2) << '\n';
      return 1;
    }
  });
}
