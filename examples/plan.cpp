// plan: shows, verifies, simulates and draws plans, made by a schedule or read from a text file.
// Not here: the work itself (parallel/). A plan needs no model and no data.
// Chapter 06.
#include <fmt/format.h>
#include <unistd.h>

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
#include "parallel/simulation/simulate.h"
#include "parallel/verifier/verify.h"

namespace {

using namespace paragrad::parallel;
using namespace paragrad::examples;

/// The flags of all commands; each command uses some of them.
struct Request {
  ScheduleFlags schedule;
  CostFlags costs;
  int steps = 0, first = 0, columns = 40;
  bool clip = false, tied = false, table = false, json = false, time_steps = false, alive = false;
  bool critical_path = false;
  std::string out;

  /// Adds the plan's file, and the flags that describe a schedule.
  void add_plan_flags(CLI::App& command);
  /// throws: Error if `command` was given both, or neither
  Plan plan(const CLI::App& command) const;
  std::string title() const;
  /// The records that a drawing marks.
  std::vector<int> path(const VerifiedPlan& verified, const Timeline& timeline) const;
};

void Request::add_plan_flags(CLI::App& command) {
  Flags flags(command);
  flags.words("FILE", schedule.plan_file, "",
              "file with a plan's text, instead of schedule flags; - is standard input");
  schedule.add_flags(flags);
  flags.whole("--steps", steps, 1,
              "updates of the plan; in pipedream, times --microbatches "
              "(default: 1, or 8 for cyclic schedules, to show their steady state)");
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
  return make_plan(schedule.schedule, layout);
}

std::string Request::title() const {
  if (schedule.plan_file.empty()) return schedule.title();
  return schedule.plan_file == "-" ? "standard input" : schedule.plan_file;
}

std::vector<int> Request::path(const VerifiedPlan& verified, const Timeline& timeline) const {
  if (!critical_path) return {};
  return paragrad::parallel::critical_path(verified.plan(), timeline).records;
}

void print_lines(const Lines& lines) {
  for (const auto& [name, value] : lines) std::cout << fmt::format("{:<22}{}\n", name, value);
}

void print_json(const nlohmann::json& json) { std::cout << json.dump(2) << '\n'; }

/// Prints the plan with its facts, or with the rule that it breaks: a wrong plan is shown, too.
void show_json(const Plan& plan) {
  nlohmann::json shown = to_json(plan);
  try {
    const VerifiedPlan verified = verify(plan);
    shown["facts"] = to_json(verified, simulate(verified, Costs()));
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
  if (!request.table && !::isatty(STDOUT_FILENO)) return;
  std::istringstream table(draw_text(simulate_unverified(plan, Costs()), request.columns));
  for (std::string line; std::getline(table, line);) std::cout << "# " << line << '\n';
}

Lines times(const Request& request, const Plan& plan, const Timeline& timeline) {
  Lines all = lines(timeline);
  if (request.time_steps)
    for (auto& line : lines(time_steps(plan, timeline))) all.push_back(line);
  return all;
}

void verify_plan(const Request& request, const Plan& plan) {
  const VerifiedPlan verified = verify(plan);
  const Timeline timeline = simulate(verified, request.costs.of(verified.plan()));
  if (request.json) return print_json(to_json(verified, timeline));
  const Lines of_time = times(request, verified.plan(), timeline);
  std::cout << "verified\n";
  print_lines(lines(verified));
  print_lines(of_time);
}

void simulate_plan(const Request& request, const Plan& plan) {
  const VerifiedPlan verified = verify(plan);
  const Timeline timeline = simulate(verified, request.costs.of(verified.plan()));
  if (request.json) return print_json(to_json(verified, timeline));
  print_lines(times(request, verified.plan(), timeline));
  const CriticalPath path = critical_path(verified.plan(), timeline);
  std::cout << fmt::format("{:<22}{}\n\n", "critical path", describe(path))
            << print(breakdown_table("", rows_of(breakdown(verified.plan(), timeline))));
}

Table where_the_time_goes(const VerifiedPlan& verified, const Timeline& timeline) {
  return breakdown_table("Where the time goes", rows_of(breakdown(verified.plan(), timeline)));
}

/// Makes an HTML page with the facts beside the timeline.
std::string page(const Request& request, const VerifiedPlan& verified, const Timeline& timeline) {
  Report report;
  report.title = request.title();
  report.facts = lines(verified);
  for (auto& line : lines(timeline)) report.facts.push_back(line);
  report.panels = {{"simulated", timeline, request.path(verified, timeline)}};
  report.tables = {where_the_time_goes(verified, timeline)};
  if (timeline.bytes() > 0) {
    report.traffic = traffic(timeline);
    report.sent = sendings(verified.plan(), timeline);
  }
  return draw_html(report);
}

void draw_plan(const Request& request, const Plan& plan) {
  PG_CHECK(!request.json || !request.out.empty(),
           "--json prints the facts; the drawing needs a file: give --out FILE");
  PG_CHECK(!request.alive || request.out.ends_with(".svg"),
           "--alive draws below a figure; add --out FILE.svg, or leave out --alive");
  PG_CHECK(
      !request.critical_path || request.out.ends_with(".svg") || request.out.ends_with(".html"),
      "--critical-path marks cells of a figure or page; add --out FILE.svg or FILE.html, or ",
      "leave out --critical-path");
  const VerifiedPlan verified = verify(plan);
  const Timeline timeline = simulate(verified, request.costs.of(verified.plan()));
  const std::vector<int> path = request.path(verified, timeline);
  const std::string ending = std::filesystem::path(request.out).extension();
  const std::string drawing = ending == ".svg"    ? draw_svg(timeline, request.alive, path)
                              : ending == ".html" ? page(request, verified, timeline)
                              : ending == ".json" ? draw_trace(timeline)
                                                  : draw_text(timeline, request.columns);
  if (request.out.empty()) {
    std::cout << drawing;
    return;
  }
  paragrad::nn::write_file(request.out, drawing);
  if (request.json) {
    nlohmann::json facts = to_json(verified, timeline);
    facts["file"] = request.out;
    return print_json(facts);
  }
  std::cout << "wrote " << request.out << ": " << request.title() << ", makespan "
            << seconds_text(timeline.makespan()) << '\n';
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
  draw.yes("--alive", request.alive, "below a figure, draw the activations alive on all ranks");
  draw.yes("--critical-path", request.critical_path,
           "in a figure or page, mark the chain of instructions that sets the plan's length");
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
      return 0;
    } catch (const PlanError& error) {
      if (!request.json) throw;
      std::cout << to_json(error).dump(2) << '\n';
      return 1;
    }
  });
}
