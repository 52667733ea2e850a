// plan: shows, verifies, simulates and draws plans, made by a schedule or read from a text file.
// Not here: the work itself (parallel/). A plan needs no model and no data. Chapter 06.
#include <fmt/ranges.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <ranges>

#include "examples/pages/breakdown_words.h"
#include "examples/pages/plan_facts.h"
#include "examples/programs/plan_figure.h"
#include "examples/programs/plan_flags.h"
#include "examples/programs/plan_machine.h"
#include "examples/programs/plan_order.h"
#include "examples/programs/plan_place.h"
#include "examples/programs/plan_poster.h"
#include "examples/programs/plan_request.h"
#include "examples/programs/plan_search.h"
#include "examples/programs/plan_torch.h"
#include "examples/programs/plan_words.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"
#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/plan/plan.h"
#include "parallel/simulation/machine.h"
#include "parallel/simulation/variants.h"
#include "parallel/verifier/verify.h"

namespace {

using namespace plangrad::parallel;
using namespace plangrad::examples;

void print_lines(const Lines& lines) {
  for (const auto& [name, value] : lines) print_text(fmt::format("{:<22}{}\n", name, value));
}

/// Says how long the proof takes that an endless plan is right at every length.
std::string proof_line(const Plan& plan) {
  const auto begin = std::chrono::steady_clock::now();
  verify(plan);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return text("# all lengths verified in ", seconds_text(taken.count()), '\n');
}

/// Prints the plan with its facts, or with the rule that it breaks: a wrong plan is shown, too.
void show_json(const Plan& plan) {
  nlohmann::json shown = to_json(plan);
  try {
    shown["facts"] = all_facts(verify(plan), Costs());
  } catch (const PlanError& error) {
    shown["facts"] = to_json(error);
  }
  print_json(shown);
}

/// Prints the plan's text. The timetable follows as comments, so that the output is still a plan.
void show_plan(const PlanRequest& request, const Plan& plan) {
  PG_CHECK(request.json + request.table + (request.format == "torch") <= 1,
           "--json, --table and --format torch are three forms of a plan; give one of them");
  if (request.format == "torch") return print_text(torch_csv(verify(plan)));
  if (request.json) return show_json(plan);
  std::cout << print(plan);
  if (request.schedule.endless) std::cout << proof_line(plan);
  if (!request.table && !::isatty(STDOUT_FILENO)) return;
  std::istringstream table(draw_text(simulate_two_bodies(plan, Costs()), request.columns));
  for (std::string line; std::getline(table, line);) std::cout << "# " << line << '\n';
}

/// Repeats the rows of one update, for `steps` updates of replicas on ranks of their own.
Plan repeated(const Plan& rows, int replicas, int steps) {
  PG_CHECK(rows.steps == 1 && rows.first == 0 && !rows.overlaps_updates() && rows.home.empty(),
           "--steps, --endless and --data-parallel repeat the rows of one update on the newest ",
           "weights; say steps 1, without first, keep, drift and home, or write all updates' rows");
  Plan plan = rows;
  plan.steps = steps;
  plan.per_step *= replicas;
  plan.rows.assign(replicas * rows.ranks(), {});
  for (int i = 0; i < steps * replicas; ++i)
    for_each_cell(rows, [&](int rank, int, Instruction x) {
      if (x.micro >= 0) x.micro += i * rows.per_step;
      if (x.version >= 0) x.version += i / replicas;
      plan.rows[i % replicas * rows.ranks() + rank].push_back(x);
    });
  return plan;
}

/// Prints the whole plan of rows of computations, which are repeated if that is asked for.
void lower_rows(const PlanRequest& request, const Flags& flags) {
  const Layout& asked = request.schedule.layout;
  Plan rows = read_rows(request.schedule.plan_file);
  rows.clip |= asked.clip;
  if (asked.tied && rows.tied.empty() && rows.stages > 1)
    rows.tied = {0, rows.stages - 1}, rows.keep.push_back(rows.keep.front());
  std::optional<Plan> plan = verify(plan_of_rows(rows)).plan();
  const double cells = 8.0 * static_cast<double>(rows.passes()) * asked.width * asked.steps;
  PG_CHECK(cells <= most_cells, "this plan would have about ", cells, " cells, and ", most_cells,
           " are possible: use a smaller --steps or --data-parallel");
  const auto plan_of = [&](int steps) { return plan_of_rows(repeated(rows, asked.width, steps)); };
  if (asked.width > 1 || flags.given("--steps")) plan = plan_of(asked.steps);
  if (request.schedule.endless) plan = make_endless(plan_of);
  PG_CHECK(plan, "--endless: the rows of several updates are not regular; use --steps");
  std::cout << print(verify(*plan).plan());
}

/// The time of a plan and, if its model is named, the memory that ranks need.
Lines times(const PlanRequest& request, const VerifiedPlan& verified, const Costs& costs,
            const Timeline& timeline, const nlohmann::json& memory = nullptr) {
  nlohmann::json facts = times_of(verified, costs, timeline);
  if (!memory.is_null()) facts["memory"] = memory;
  Lines all = in_words(facts, FactKind::of_time);
  if (!request.time_steps) return all;
  const nlohmann::json steps = time_steps_of(verified.plan(), timeline);
  for (const auto& line : in_words(steps, FactKind::of_time_steps)) all.push_back(line);
  return all;
}

void verify_plan(const PlanRequest& request, const Plan& plan) {
  const VerifiedPlan verified = verify(plan);
  const Costs costs = request.costs.of(verified.plan());
  if (request.json) return print_json(all_facts(verified, costs));
  const Lines of_time = times(request, verified, costs, simulate(verified, costs));
  std::cout << "verified" << (plan.is_endless() ? " at every length\n" : "\n");
  for (const std::string& sentence : sentences(verified)) std::cout << sentence << '\n';
  std::cout << '\n';
  print_lines(in_words(facts_of(verified), FactKind::of_plan));
  print_lines(of_time);
}

void simulate_plan(const PlanRequest& request, const Plan& plan) {
  const VerifiedPlan verified = verify(plan);
  Costs costs = request.costs.of(verified.plan());
  nlohmann::json memory;
  std::vector<std::string> layers;  // of each stage
  if (!request.model.model.empty()) {
    const ModelCosts model =
        request.model.costs(plan, request.schedule.layout, costs.machine.get());
    costs = with_model(costs, model, plan);
    const std::vector<int>& cuts = model.training.cuts;
    for (std::size_t stage = 0; stage + 1 < cuts.size(); ++stage)
      layers.push_back(fmt::format("{}-{}", cuts[stage], cuts[stage + 1] - 1));
    const Costs ordered = one_by_one(costs);
    const Plan ran = in_order(plan, ordered);
    memory =
        memory_json(peaks(ran, simulate(verified, ordered), sizes_of(model, ran, costs.sums.how)));
    if (costs.machine && costs.machine->memory > 0) memory["device"] = costs.machine->memory;
  }
  if (request.json) {
    nlohmann::json facts = all_facts(verified, costs);
    if (!memory.is_null()) facts["memory"] = memory, facts["layers"] = layers;
    return print_json(facts);
  }
  const Timeline timeline = simulate(verified, costs);
  print_lines({{"updates", text(plan.steps, plan.is_endless() ? ", with one body" : "")}});
  print_lines(times(request, verified, costs, timeline, memory));
  if (!layers.empty())
    print_lines({{"layers of stages", fmt::format("{}", fmt::join(layers, " "))}});
  if (memory.contains("device")) {
    const double has = memory["device"];
    const double more = std::ranges::max(memory["peaks"].get<std::vector<double>>()) - has;
    print_lines({{"device memory", text(bytes_text(has), more > 0 ? ": " : ": the plan fits",
                                        more > 0 ? bytes_text(more) + " too much" : "")}});
  }
  const CriticalPath path = critical_path(verified.plan(), timeline);
  std::cout << fmt::format("{:<22}{}\n\n", "critical path", describe(path))
            << breakdown_table(breakdown(verified.plan(), timeline))
            << "\nThe bubble is the share of all ranks' time in which they do not compute.\n";
}

void compare_plans(const PlanRequest& request, const Flags& flags) {
  const std::string &one = request.schedule.plan_file, &other = request.other;
  const auto [a, b] = sides_of(request, {one, other});
  const auto is_one = [&](const std::string& name) { return name == one || name == other; };
  if (std::ranges::none_of(schedule_names(), is_one))
    request.check_no_schedule(flags, text(one, ", ", other));
  if (const std::string note = size_note(a, b); !note.empty()) tell("note: " + note);
  if (request.json) return print_json(compared_json(a, b));
  print_text(compared(a, b));
}

/// Prints or writes a machine's text, or that of the machine on which this runs.
void tell_machine(const PlanRequest& request, const Flags&) {
  PG_CHECK(request.machine.empty() == request.measure,
           "give either a machine's name or file, or --measure");
  const auto write = [&](const std::string& text) {
    if (request.out.empty()) return print_text(text);
    write_result(request.out, text, "wrote " + request.out);
  };
  PG_CHECK(request.measure || request.transport != "mpi", "--transport mpi needs --measure");
  if (!request.measure) return write(machine_text(request.machine));
  const std::string stem = std::filesystem::path(request.out).stem();
  measure_machine(stem.empty() ? "measured" : stem, request.transport == "mpi", write);
}

/// A command that has one plan.
template <void (*run)(const PlanRequest&, const Plan&)>
void with_plan(const PlanRequest& request, const Flags& flags) {
  run(request, request.plan(flags));
}

/// Adds the plan's file, schedule and costs; flags that follow are of the output.
void add_plan_flags(Flags& flags, PlanRequest& request, bool has_costs = true) {
  flags.words("FILE", request.schedule.plan_file, "",
              "file with a plan's text, instead of schedule flags; - is standard input");
  request.schedule.add_flags(flags, true);
  if (has_costs) request.costs.add_flags(flags);
  flags.group("Output");
}

void add_columns(Flags& flags, PlanRequest& request) {
  flags.whole("--columns", request.columns, 1,
              "width of the timetable; a column is the shortest forward or backward");
}

void show_flags(Flags flags, PlanRequest& request) {
  add_plan_flags(flags, request, false);
  flags.yes("--table", request.table, "add a timetable, as on a terminal, where a forward takes 1");
  add_columns(flags, request);
  flags.yes("--json", request.json, "print the header, the rows and the facts as JSON");
  flags.choice("--format", request.format, {"plan", "torch"},
               "a plan's text, or its computations as a CSV that PyTorch loads");
}

void facts_flags(Flags flags, PlanRequest& request) {
  add_plan_flags(flags, request);
  flags.yes("--json", request.json, "print the facts as JSON");
  flags.yes("--time-steps", request.time_steps,
            "print what each time step holds in the middle of the plan");
}

void simulate_flags(Flags flags, PlanRequest& request) {
  request.model.add_flags(flags);
  facts_flags(flags, request);
  flags.needs("--cuts", "--model");
}

void draw_flags(Flags flags, PlanRequest& request) {
  add_plan_flags(flags, request);
  flags
      .words("--out", request.out, "FILE",
             "write a figure (.svg), a page to explore (.html), a trace for ui.perfetto.dev "
             "(.json) or text (.txt); without --out, print it in the form of --format")
      .ends_in({".svg", ".html", ".json", ".txt"});
  flags.choice("--format", request.drawing, {"txt", "svg", "html", "json"}, "what is printed");
  flags.excludes("--format", "--out");
  flags.yes("--alive", request.figure.alive,
            "below a figure, draw the activations alive on all ranks");
  flags.choice("--lanes", request.lanes, {"versions", "holdings"},
               "below the ranks of a figure, draw the versions of weights, or all holdings: also "
               "activations and gradient sums");
  flags.yes("--critical-path", request.critical_path,
            "in a figure or page, mark the chain of instructions that sets the plan's length");
  flags.yes("--game", request.game,
            "let a page begin with \"Break this pipeline\": plans to make faster by hand");
  flags.number("--seconds", request.figure.seconds, 0, 1e9,
               "length of a figure's time axis; equal with --width, it makes figures comparable "
               "(default: the plan's)");
  flags.number("--width", request.figure.width, 0, 1e5,
               "width of a figure in pixels (default: what suits its cells)");
  add_columns(flags, request);
  flags.yes("--json", request.json, "print the facts and the file's name as JSON");
}

void lower_flags(Flags flags, PlanRequest& request) {
  flags
      .words("FILE", request.schedule.plan_file, "",
             "file with a plan's header and one row of computations for each rank, which any "
             "program can write, or PyTorch's CSV of a schedule (.csv); - is standard input")
      .required();
  flags.group("What becomes of one update");
  flags.whole("--steps", request.schedule.layout.steps, 1, "updates that repeat these rows");
  request.schedule.add_flags(flags, true, {"endless", "data_parallel", "clip", "tied"});
  flags.excludes("--steps", "--endless");
}

void compare_flags(Flags flags, PlanRequest& request) {
  const char* side = "a plan's file, or a schedule's name, completed by flags or the other's file";
  flags.words("PLAN_A", request.schedule.plan_file, "", side).required();
  flags.words("PLAN_B", request.other, "", side).required();
  request.schedule.add_flags(flags, true);
  flags.remove("--schedule");
  request.costs.add_flags(flags);
  flags.group("Output");
  flags.yes("--json", request.json, "print both plans' facts and the differences as JSON");
}

void machine_flags(Flags flags, PlanRequest& request) {
  flags.words("MACHINE", request.machine, "",
              machine_words() + "; tutorials/06-pipelines-and-bubbles.md explains its lines");
  flags.yes("--measure", request.measure, "measure the machine on which this runs");
  flags.words("--out", request.out, "FILE", "write the text to this file");
  flags.choice("--transport", request.transport, {"threads", "mpi"},
               "between which ranks messages are measured: two threads, or processes that mpirun "
               "started");
}

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"show",
       "Prints a plan as text, which can be edited and read back.",
       {{"Write a plan to a file",
         "plan show --schedule 1f1b --stages 4 --microbatches 8 > my.plan"},
        {"Add a timetable", "plan show --schedule gpipe --stages 4 --microbatches 4 --table"}},
       show_flags,
       with_plan<show_plan>},
      {"verify",
       "Checks a plan against every rule, and prints the facts that follow from it.",
       {{"Check a plan that was edited", "plan verify my.plan"},
        {"Count versions and staleness of a schedule",
         "plan verify --schedule pipedream --stages 4 --microbatches 4 --steps 3"},
        {"Get the facts as JSON", "plan verify my.plan --json"}},
       facts_flags,
       with_plan<verify_plan>},
      {"simulate",
       "Predicts how long a plan takes.",
       {{"Give the times and bytes of a network",
         "plan simulate my.plan --forward 0.01 --backward 0.02 --bandwidth 1e9 "
         "--activation-bytes 4000000"},
        {"Let rank 2 be half as fast",
         "plan simulate --schedule 1f1b --stages 4 --microbatches 8 --slowness 1,1,2,1"},
        {"See the memory that a model's ranks need",
         "plan simulate --schedule 1f1b --stages 8 --microbatches 8 --model 2bw-2.2b "
         "--sequences 4 --dtype bf16 --device gpu"}},
       simulate_flags,
       with_plan<simulate_plan>},
      search_command(),
      {"draw",
       "Draws a plan's timeline.",
       {{"Make a page to explore",
         "plan draw --schedule 2bw --stages 4 --microbatches 4 --steps 3 --out 2bw.html"},
        {"Make a figure", "plan draw my.plan --backward 2 --out my.svg"}},
       draw_flags,
       with_plan<draw_plan>},
      poster_command(),
      {"lower",
       "Adds updates and messages to rows of computations, and prints the whole plan.",
       {{"Complete the rows of two stages",
         "printf 'stages 2 per_step 1 steps 1\\n0F0v0 0B0v0\\n1F0v0 1B0v0\\n' | plan lower -"},
        {"Repeat them on two replicas", "plan lower my.rows --data-parallel 2 --endless --clip"}},
       lower_flags,
       lower_rows},
      rows_command(),
      order_command(),
      place_command(),
      {"compare",
       "Prints the numbers of two plans side by side, those that differ first; of numbers by rank, "
       "the largest. Peak forwards are those whose activations a rank keeps at once, peak in "
       "models the same in microbatches of the whole model. tutorials/plan-json.md explains all.",
       {{"Compare two schedules of one size",
         "plan compare gpipe 1f1b --stages 4 --microbatches 8 --backward 2"},
        {"Compare an edited plan with a schedule's", "plan compare my.plan 1f1b"}},
       compare_flags,
       compare_plans},
      {"machine",
       "Prints a machine's devices and links as a text, which --machine reads.",
       {{"See what a machine is said to have", "plan machine dgx-a100"},
        {"Measure this one", "plan machine --measure --out here.txt"},
        {"Measure links between hosts, too",
         "mpirun -n 4 --hostfile hosts plan machine --measure --transport mpi --out here.txt"}},
       machine_flags,
       tell_machine},
      {"schedules",
       "Lists the schedules: what each does, and its paper.",
       {{"See one that is listed",
         "plan show --schedule zb-h1 --stages 4 --microbatches 8 --table"}},
       [](Flags, PlanRequest&) {},
       [](const PlanRequest&, const Flags&) { print_text(schedule_words()); }}};
  return all;
}

/// Runs the command that was typed, and returns the program's exit status.
int run_command(const PlanRequest& request, const Flags& flags) {
  try {
    const auto command = std::ranges::find(commands(), flags.name(), &Command::name);
    PG_CHECK(command != commands().end(), "no command given: use one of ",
             fmt::to_string(fmt::join(commands() | std::views::transform(&Command::name), ", ")));
    const Summing& sums = request.costs.costs.sums;
    PG_CHECK(sums.hosts.empty() || entry_of(sums.how).by_hosts, "--hosts: only ",
             "--reduction hierarchical asks for hosts; add it, or leave out --hosts");
    command->run(request, flags);
    // Standard output may be a plan or JSON.
    if (const std::string note = request.schedule.note(request.schedule.layout.clip); !note.empty())
      tell("note: " + note);
    return 0;
  } catch (const PlanError& error) {  // the plan is wrong, the command is not
    if (!request.json) throw;
    print_json(to_json(error));
    return failed;
  } catch (const plangrad::nn::Unwritable&) {  // nor is it wrong where a disk is full
    throw;
  } catch (const plangrad::autograd::Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags(
      "Shows, verifies, simulates, draws and compares plans. A plan says what each rank of a "
      "training run does, in which order, and with which version of the weights. It comes from a "
      "schedule or from a text file.",
      "plan");
  add_examples(flags,
               {{"List the flags of a command", "plan show --help"},
                {"Make a plan and check it",
                 "plan show --schedule 2bw --stages 4 --microbatches 4 | plan verify -"},
                {"Compare two schedules", "plan compare 1f1b 2bw --stages 4 --microbatches 8"}});
  PlanRequest request;
  request.command = typed_command(argc, argv);
  for (const Command& command : commands())
    command.add_flags(flags.command(command.name, command.what, command.examples), request);
  return run_program(flags, [&] {
    usage([&] { flags.parse(argc, argv); });
    return run_command(request, flags.typed());
  });
}
