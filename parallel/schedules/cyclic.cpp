// Cyclic Data Parallelism: a microbatch begins two time steps after the one before it, as in a
// round dance, without a pause between updates. Every time step computes each stage once.
//   theta(t+1) = theta(t) - lr/N sum_i grad f_i(u_i),   u_i = theta(t-1) in v1; in v2 theta(t), on
//   stages that have it already
// Chapter 08; Fournier and Oyallon 2024, section 3.
#include "parallel/schedules/plan_spec.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

enum class Rule { v1, v2 };

void check(const Layout& layout, Rule rule) {
  const int n = layout.stages;
  PG_CHECK(layout.microbatches == 1 || layout.microbatches == n, "a cyclic schedule has as many ",
           "microbatches as stages, ", n, "; leave out the microbatches, or ask for as many");
  PG_CHECK(layout.width == 1,
           "a cyclic schedule has no replicas; its microbatches have ranks of their ",
           "own. Leave out the data parallelism of ", layout.width);
  PG_CHECK(layout.zero == 0,
           "a cyclic schedule shards its state with --setting zero, not with --zero");
  PG_CHECK(layout.gap >= 1 && layout.gap <= std::max(3, n), "a --gap of ", layout.gap,
           " does not fit ", counted(n, "stage"), "; use one from 1 to ", std::max(3, n),
           ", or more --stages");
  PG_CHECK(!layout.clip || rule == Rule::v1, "cyclic-v2 can't clip: the norm of a step is known ",
           "after the last backward of stage 0, when later stages have already read new weights. ",
           "Use --clip 0, or cyclic-v1");
  bool hands_over = layout.setting == Setting::model || layout.setting == Setting::zero;
  PG_CHECK(
      !layout.tied || n == 1 || !hands_over, "stages that share a tensor need one rank that ",
      "always has it, and the settings model and zero have none; untie the embeddings (--untied), ",
      "or use another --setting");
}

// [snippet rank_of]
/// The rank that computes a stage for a microbatch. In setting model, each takes 2 (stages - stage)
/// time steps from its forward to the end of its backward, and a new one comes every two:
/// (stages - stage) ranks take turns.
int rank_of(Setting setting, int stages, int stage, int micro) {
  switch (setting) {
    case Setting::one_device: return 0;
    case Setting::data:
    case Setting::zero: return micro % stages;
    case Setting::pipeline: return stage;
    case Setting::model: break;
  }
  return stage * stages - stage * (stage - 1) / 2 + micro % (stages - stage);
}
// [end snippet]

/// The number of ranks. The last rank computes the last stage of the last microbatch.
int ranks(const Layout& layout) {
  return rank_of(layout.setting, layout.stages, layout.stages - 1, layout.stages - 1) + 1;
}

// [snippet cyclic]
/// Stage j of microbatch k: forward at time 2k + j, backward at 2k + 2N - 1 - j.
Plan dance(const Layout& layout, const std::function<int(int stage, int micro)>& version) {
  const int n = layout.stages;
  Plan plan = empty_plan(layout, ranks(layout), {/*keep*/ 2});
  std::map<int, Row> at;  // by time step; backwards first: one device then frees before it fills
  for (int micro = plan.first_micro(); micro < plan.last_micro(); ++micro)
    for (int stage = 0; stage < n; ++stage) {
      at[2 * micro + 2 * n - 1 - stage].push_back(backward(stage, micro, version(stage, micro)));
      at[2 * micro + stage].push_back(forward(stage, micro, version(stage, micro)));
    }
  for (auto& [time, row] : at)
    for (const Instruction& x : row)
      plan.rows[rank_of(layout.setting, n, x.stage, x.micro)].push_back(x);
  return plan;
}
// [end snippet]

Plan cyclic(Layout layout, Rule rule) {
  const int n = layout.microbatches = layout.stages;
  // [snippet version]
  auto version = [&](int stage, int micro) {
    bool fresh = rule == Rule::v2 && micro % n + stage >= n - 1;
    return fresh ? micro / n : std::max(micro / n - 1, 0);
  };
  // [end snippet]
  Plan plan = dance(layout, version);
  const bool is_data = layout.setting == Setting::data, is_zero = layout.setting == Setting::zero;
  if (n > 1 && has_turns(layout.setting)) {
    plan.stagger = is_data ? 2 : 1;
    plan.gap = std::min(layout.gap, n);  // the usual gaps, 2 and 3, can exceed N
  }
  // The last stage's home is rank 0: there v2 reads new weights first.
  for (int stage = 0; is_zero && stage < n; ++stage) plan.home.push_back(n - 1 - stage);
  if (!is_zero) place_steps(plan);
  return plan;
}

SumPath ring(const Layout&) { return SumPath::ring; }

/// A steady ring needs a timetable with forwards and backwards of one time step, none repeated.
SumPath steady_if_possible(const Layout& layout) {
  const bool steady = layout.setting == Setting::data && layout.gap == 2 && !layout.recompute;
  return steady ? SumPath::steady_ring : SumPath::ring;
}

constexpr SpecField setting_field = in_layout<&Layout::setting>(
    "setting", "where microbatches run (default: data)", {.thing = "settings"});

constexpr SpecField gap_field = in_layout<&Layout::gap>(
    "gap",
    "stages between consecutive microbatches, in settings data and zero (default: 2; in "
    "training 3, because a backward takes about twice as long as a forward)",
    {.least = 1, .thing = "turns"});

template <Rule rule>
Schedule cyclic_schedule(const char* name, SumPath (*path)(const Layout&)) {
  return {.name = name,
          .make = [](const Layout& layout) { return cyclic(layout, rule); },
          .ranks = ranks,
          .cyclic = true,
          .overlaps = true,
          .chunks = 0,
          .why_no_clip = rule == Rule::v1
                             ? nullptr
                             : "reads weights before the norm of their whole gradient is "
                               "known; use --clip 0, or --schedule cyclic-v1",
          .fields = {&setting_field, &gap_field},
          .sum_path = path,
          .check = [](const Layout& layout) { check(layout, rule); }};
}

}  // namespace

extern const Schedule cyclic_v1_schedule =
    cyclic_schedule<Rule::v1>("cyclic-v1", steady_if_possible);

/// cyclic-v2 can't clip: the norm of a gradient exists after stage 0's last backward, when most
/// forwards of the next step, which read the updated weights, should have begun.
extern const Schedule cyclic_v2_schedule = cyclic_schedule<Rule::v2>("cyclic-v2", ring);

}  // namespace plangrad::parallel
