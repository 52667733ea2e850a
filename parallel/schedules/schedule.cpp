// The register of schedules, and what all of them share: checks of layouts, making a plan, moving
// it to another place of the run. Not here: the orders, and messages (lower.cpp). Chapter 06.
#include "parallel/schedules/schedule.h"

#include <fmt/ranges.h>

#include "parallel/verifier/rules.h"

// Sorted by the names that users type, as lists of them are.
#define PLANGRAD_SCHEDULES(SCHEDULE)                                             \
  SCHEDULE(one_forward_one_backward) /* a pipeline that empties at each step */  \
  SCHEDULE(pipedream_2bw)            /* two versions of the weights */           \
  SCHEDULE(cyclic_v1)                /* microbatches one after the other */      \
  SCHEDULE(cyclic_v2)                /* cyclic_v1 on the freshest weights */     \
  SCHEDULE(data_parallel)            /* every rank holds the model */            \
  SCHEDULE(dual_pipe)                /* two copies, from both ends */            \
  SCHEDULE(dual_pipe_v)              /* a folded model, flows that cross */      \
  SCHEDULE(gpipe)                    /* all forwards, then all backwards */      \
  SCHEDULE(interleaved)              /* 1F1B, several stages on a rank */        \
  SCHEDULE(looped_bfs)               /* a stage's microbatches all at once */    \
  SCHEDULE(message_driven)           /* in the order in which messages come */   \
  SCHEDULE(paci)                     /* one version of the weights, drift */     \
  SCHEDULE(pipedream)                /* an update after each microbatch */       \
  SCHEDULE(recycle)                  /* the peers of lost ranks do their work */ \
  SCHEDULE(zb_h1)                    /* 1F1B, backwards in two parts */          \
  SCHEDULE(zb_h2)                    /* without bubble, twice the memory */      \
  SCHEDULE(zb_v)                     /* without bubble, on a folded model */

namespace plangrad::parallel {

#define DECLARE(schedule) extern const Schedule schedule##_schedule;
PLANGRAD_SCHEDULES(DECLARE)

const std::vector<const Schedule*>& schedules() {
#define ADDRESS(schedule) &schedule##_schedule,
  static const std::vector<const Schedule*> all{PLANGRAD_SCHEDULES(ADDRESS)};
  return all;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule* each : schedules()) names.emplace_back(each->name);
  return names;
}

const Schedule& find_schedule(const std::string& name) {
  for (const Schedule* schedule : schedules())
    if (schedule->name == name) return *schedule;
  const std::vector<std::string> names = schedule_names();
  throw Error(text("there is no schedule \"", name, "\"; there are ",
                   fmt::format("{}", fmt::join(names, ", ")), autograd::did_you_mean(name, names)));
}

bool Schedule::has(const SpecField& field) const {
  return std::ranges::find(fields, &field) != fields.end();
}

namespace {

void check_sizes(const Layout& layout) {
  PG_CHECK(layout.stages > 0 && layout.width > 0 && layout.microbatches > 0 && layout.steps > 0 &&
               layout.first >= 0,
           "--stages ", layout.stages, ", --data-parallel ", layout.width, ", --microbatches ",
           layout.microbatches, ", --steps ", layout.steps, ", --first ", layout.first,
           ": a plan needs at least 1 of each, and a --first of at least 0");
  const double micros = 1.0 * layout.width * layout.microbatches;
  const double last = micros * (layout.first + 1.0 * layout.steps);
  PG_CHECK(last < most_microbatches, "this plan counts to microbatch ", fmt::format("{:.0f}", last),
           "; at most ", most_microbatches,
           " are possible. Use a smaller --steps, --data-parallel, --microbatches or, of plan, "
           "--first");
  constexpr int most = 2'000'000;  // of which each takes about a kB
  const double forwards = micros * layout.stages * layout.steps;
  PG_CHECK(forwards <= most, "a plan of ", fmt::format("{:.0f}", forwards),
           " forwards would not fit into memory; at most ", most,
           " are possible. Use fewer --steps, or --endless, which a run repeats");
}

/// Checks that cuts by hand make as many stages; how many layers there are is the model's.
void check_cuts(const std::vector<double>& cuts, int stages) {
  if (cuts.empty()) return;
  const std::string list = fmt::format("--cuts {}", fmt::join(cuts, ","));
  PG_CHECK(std::ssize(cuts) == stages - 1, list, ": cut there, a model has ", cuts.size() + 1,
           " stages, and the plan has ", stages);
  PG_CHECK(cuts[0] > 0 && std::is_sorted(cuts.begin(), cuts.end(), std::less_equal()), list,
           ": expected the layers at which stages begin, ascending");
}

/// Checks the ZeRO level. A cyclic schedule's own check says what it has instead of levels.
void check_zero(const Schedule& schedule, const Layout& layout) {
  PG_CHECK(layout.zero >= 0 && layout.zero <= 3, "ZeRO has levels 1 to 3, not ", layout.zero);
  if (schedule.cyclic) return;
  PG_CHECK(layout.zero == 0 || layout.width * layout.copies() > 1,
           "ZeRO shares the state of replicas; with one there is nothing to share. Use a ",
           "--data-parallel of at least 2");
  PG_CHECK(layout.zero <= schedule.highest_zero, "ZeRO ", layout.zero, " can't be combined with ",
           schedule.name, ": a pipeline adds to its gradients and reads its weights with every ",
           "microbatch, and would send them every time. Use --zero 1, or --schedule data");
}

/// Checks that stages divide among the ranks of a replica, in a way that the schedule has.
void check_places(const Schedule& schedule, const Layout& layout) {
  const Layout own = with_defaults(schedule, {.stages = layout.stages});
  const int held = layout.chunks, stages = layout.stages * layout.copies();
  PG_CHECK(held > 0 && (held == own.chunks || schedule.has(chunks_field)), "--chunks ", held,
           ": the schedule ", schedule.name, " has ", counted(own.chunks, "stage"),
           " on a rank; leave this flag out");
  PG_CHECK(layout.placement == own.placement || schedule.has(placement_field),
           "--placement: the schedule ", schedule.name,
           " has a placement of its own; leave this flag out");
  PG_CHECK(stages % held == 0, "--stages ", layout.stages, ": the schedule ", schedule.name,
           " holds ", held, " stages on each rank, so it can't have ", layout.stages,
           "; use --stages ", (stages / held + 1) * held / layout.copies(),
           schedule.has(chunks_field) ? ", or other --chunks" : "");
}

/// The computations that a schedule with homes writes: lowering adds all else, the steps, too.
Plan without_messages(Plan plan) {
  for (Row& row : plan.rows)
    std::erase_if(row, [](const Instruction& x) {
      return !uses_weights(x) && !(drops(x) && x.what == Value::activation);
    });
  return plan;
}

/// Checks that rows have the forward and the whole backward of each microbatch on each stage:
/// lowering would find only that computations wait for each other.
void check_passes(const Plan& plan) {
  std::set<Name> found;  // an activation: a forward; a stash: a backward's end
  for_each_cell(plan, [&](int, int, const Instruction& x) {
    if (x.op == Op::forward) found.insert({Value::activation, x.stage, x.micro});
    if (adds_gradient(x)) found.insert({Value::stash, x.stage, x.micro});
  });
  for (int micro = plan.first_micro(); micro < plan.last_micro(); ++micro)
    for (int stage = 0; stage < plan.stages; ++stage)
      for (auto [what, letter] : {std::pair(Value::activation, 'F'), {Value::stash, 'B'}})
        PG_CHECK((letter == 'B' && plan.steps == 0) || found.contains({what, stage, micro}),
                 "no row has ", stage, letter, micro, "; every microbatch passes every stage ",
                 "forward and back (B, or I and W). The header's steps and per_step say how many");
}

}  // namespace

Layout with_defaults(const Schedule& schedule, Layout layout) {
  if (layout.chunks == 0) layout.chunks = schedule.chunks > 0 ? schedule.chunks : layout.stages;
  if (!layout.placement) layout.placement = schedule.placement;
  return layout;
}

void check_layout(const Schedule& schedule, const Layout& asked) {
  const Layout layout = with_defaults(schedule, asked);
  check_sizes(layout);
  check_cuts(layout.cuts, layout.stages);
  check_zero(schedule, layout);
  PG_CHECK(layout.drift == 0 || schedule.drifts, "--drift ", layout.drift, ": in the schedule ",
           schedule.name, " a backward reads the version that its forward read; use paci");
  check_places(schedule, layout);
  if (schedule.check) schedule.check(layout);
}

Plan make_plan(const std::string& name, const Layout& asked) {
  const Schedule& schedule = find_schedule(name);
  check_layout(schedule, asked);
  const Layout layout = with_defaults(schedule, asked);
  Plan plan = schedule.make(layout);
  if (layout.recompute) add_recomputation(plan);
  plan = lower(std::move(plan), schedule.sum_path ? schedule.sum_path(layout) : SumPath::group);
  plan.codec = layout.codec;
  plan.channel = layout.channel;
  check_codecs(plan);
  return plan;
}

Plan plan_of_rows(Plan plan) {
  PG_CHECK(!plan.is_endless(), "rows have no bars; plan lower --endless repeats one update");
  bool has_steps = false;
  for_each_cell(plan, [&](int, int, const Instruction& x) {
    PG_CHECK(is_compute(x), print(x), ": rows have no messages or reductions; lowering adds them");
    has_steps |= makes_version(x);
  });
  check_shape(plan);
  check_passes(plan);
  if (!has_steps && plan.home.empty() && plan.steps > 0) place_steps(plan);
  const SumPath path = plan.home.empty() ? SumPath::group : SumPath::ring;
  return lower(std::move(plan), path);
}

std::string note_on_norms(const Layout& layout) {
  const int forwards = layout.depth() - 1;
  if (!layout.clip || forwards == 0) return "";
  return text("With clipping, all ranks wait at each update for the norm of the whole ",
              "gradient: every rank is idle for ", counted(forwards, "forward"),
              " of a stage more than without it, if I and W take as long as these");
}

Plan later_plan(Plan plan, int steps) {
  bool merged = false;  // whether negative versions became version 0
  plan.first += steps;
  for_each_cell(plan, [&](int, int, Instruction& x) {
    if (x.micro >= 0) x.micro += steps * plan.per_step;
    if (x.version < 0) return;
    merged |= x.version + steps < 0;
    x.version = std::max(x.version + steps, 0);
  });
  // Merged versions would send travelling weights twice, so messages are added anew.
  if (merged && !plan.home.empty()) return lower(without_messages(std::move(plan)), SumPath::ring);
  return plan;
}

}  // namespace plangrad::parallel
