// Shape: checks of a header, of single instructions, and of the rows of a message-driven plan that
// need no replay. Not here: whether values are where they are needed (replay). Chapter 06.
#include "parallel/verifier/rules.h"

namespace plangrad::parallel {
namespace {

template <class... Parts>
void require(bool condition, const Parts&... what) {
  if (!condition) throw PlanError("shape", -1, -1, text("shape: the header: ", what...));
}

bool ascending_below(const std::vector<int>& numbers, int end) {
  return std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end() &&
         (numbers.empty() || (numbers.front() >= 0 && numbers.back() < end));
}

/// Checks how many ranks, stages, steps and microbatches a plan has.
void check_counts(const Plan& plan) {
  constexpr std::int64_t most = most_microbatches;
  require(plan.ranks() >= 1, "a plan has at least one rank");
  require(plan.stages >= 1, "a plan has at least one stage, not ", plan.stages);
  require(plan.per_step >= 1, "a step has at least one microbatch, not ", plan.per_step);
  require(plan.steps >= 0 && plan.first >= 0, "steps are counted from 0");
  std::int64_t steps = std::int64_t{plan.first} + plan.steps + 1, cells = 0;
  require(steps < most && steps * plan.per_step < most, "microbatches are counted up to ", most);
  for (const Row& row : plan.rows) cells += static_cast<std::int64_t>(row.size());
  std::int64_t forwards = std::max(plan.steps, 1) * std::int64_t{plan.per_step} * plan.stages;
  require(forwards <= cells, "it asks for ", counted(forwards, "forward"), "; the rows have ",
          counted(cells, "instruction"), " in all");
}

void check_header(const Plan& plan) {
  require(plan.sharded >= 0 && plan.sharded <= 3, "sharded is 0 to 3, not ", plan.sharded);
  require(plan.tied.empty() || plan.tied.size() > 1, "at least two stages are tied");
  require(ascending_below(plan.tied, plan.stages), "tied stages ascend and exist");
  require(static_cast<int>(plan.keep.size()) == plan.stage_count() || plan.keep.size() == 1,
          "keep is one number, or one for each stage");
  require(*std::min_element(plan.keep.begin(), plan.keep.end()) >= 1, "keep is at least 1");
  require(*std::ranges::max_element(plan.keep) <= 1 << 12, "keep is at most ", 1 << 12);
  require(plan.drift >= 0, "drift is at least 0, not ", plan.drift);
  require(plan.drift == 0 || *std::ranges::max_element(plan.keep) == 1,
          "with drift one version of each stage is alive, so keep is 1");
  require(
      plan.drift == 0 || (plan.home.empty() && plan.sharded < 3),
      "with drift weights stay on their ranks, whole: without home, and with sharded 2 at most");
  require(plan.drift == 0 || plan.in_flight == 0,
          "with drift the order of a rank's cells decides what they read, so it can't depend on ",
          "timing (in_flight)");
  for (const auto& group : plan.groups)
    require(!group.empty() && ascending_below(group, plan.ranks()), "group ", list(group),
            " does not ascend, or names a rank that does not exist; there are ", plan.ranks());
  require(plan.home.empty() || static_cast<int>(plan.home.size()) == plan.stage_count(),
          "home is a rank for each of ", counted(plan.stage_count(), "stage"));
  for (int rank : plan.home)
    require(rank >= 0 && rank < plan.ranks(), "home ", rank, " does not exist");
  require(plan.home.empty() || plan.sharded == 0, "a plan has shards or homes, not both");
  require(plan.in_flight == 0 || plan.steps > 0,
          "in_flight bounds forwards by backwards, and a plan of 0 steps has no backwards");
  require(plan.period >= 0 && plan.period <= plan.steps, "a period is 1 to ",
          counted(plan.steps, "step"), ", as many as the plan has at most, not ", plan.period);
  require(plan.in_flight == 0 || !plan.is_endless(),
          "the order of a message-driven plan depends on timing, so it can't repeat (period)");
  require(static_cast<int>(plan.bars.size()) == (plan.is_endless() ? plan.ranks() : 0),
          "each row of a plan with a period has two bars, and no other plan has any");
  for (int rank = 0; rank < static_cast<int>(plan.bars.size()); ++rank) {
    const auto [first, second] = plan.bars[rank];
    require(0 <= first && first <= second && second <= static_cast<int>(plan.rows[rank].size()),
            "the bars of rank ", rank, " stand at cells ", first, " and ", second, " of ",
            plan.rows[rank].size());
  }
  require(plan.in_flight == 0 || plan.home.empty(),
          "a message-driven plan (in_flight) has no homes, as its weights do not travel");
}

void check_fields(const Place& at) {
  const Instruction& x = at.instruction();
  if (!find_operation(x)) refuse("shape", at, "this operation does not take this value");
  if (!is_named_fully(x)) refuse("shape", at, "this operation takes ", takes(operation(x)));
}

void check_exists(const Place& at, const char* what, int number, int count) {
  if (number >= count) refuse("shape", at, what, " ", number, " does not exist; there are ", count);
}

void check_names(const Place& at) {
  const Plan& plan = at.plan;
  const Instruction& x = at.instruction();
  bool layers = uses_weights(x) || x.what == Value::activation ||
                x.what == Value::activation_gradient || x.what == Value::turn;
  check_exists(at, "stage", x.stage, layers ? plan.stages : plan.stage_count());
  if (x.micro >= 0 && (x.micro < plan.first_micro() || x.micro >= plan.last_micro()))
    refuse("shape", at, "microbatch ", x.micro, " does not exist; there are ", plan.first_micro(),
           " to ", plan.last_micro() - 1);
  if (x.version >= most_microbatches / plan.per_step)
    refuse("shape", at, "version ", x.version, " does not exist; the plan makes versions up to ",
           plan.first + plan.steps);
  if (travels(x)) {
    check_exists(at, "rank", x.peer, plan.ranks());
    if (x.peer == at.rank) refuse("shape", at, "a rank does not send to itself");
  } else if (x.peer >= 0) {
    check_exists(at, "group", x.peer, static_cast<int>(plan.groups.size()));
    const std::vector<int>& group = plan.groups[x.peer];
    if (!std::binary_search(group.begin(), group.end(), at.rank))
      refuse("shape", at, "group ", x.peer, " is ", list(group), ", without this rank");
  }
}

/// Checks operations that only some plans may have.
void check_kind(const Place& at) {
  const Plan& plan = at.plan;
  const Instruction& x = at.instruction();
  bool moves = travels(x), sum = x.what == Value::gradient_sum;
  bool trains = goes_back(x) || makes_version(x) || x.what == Value::norm || sum;
  if (plan.steps == 0 && trains)
    refuse("shape", at, "a plan of 0 steps evaluates; it only runs forward");
  bool gathers = meets(x) && x.what == Value::weights;
  if (plan.sharded == 0 && (gathers || (drops(x) && sum)))
    refuse("shape", at, "the plan has no shards; set sharded in the header");
  if (plan.sharded > 0 && moves && sum)
    refuse("shape", at, "sums of sharded stages are reduced by group, not sent");
  if (plan.home.empty() && moves && x.what == Value::weights)
    refuse("shape", at, "weights are sent from a stage's home; set home in the header");
  if (plan.home.empty() && plan.sharded < 3 && drops(x) && x.what == Value::weights)
    refuse("shape", at, "weights of this plan die with their last reader; only what is sent from ",
           "a home, or gathered with sharded 3, is dropped");
}

/// Checks a cell of a message-driven rank. With one stage per rank, a wire carries activations
/// only, or gradients only, so a receiver may interleave the two kinds in any order.
void check_driven_cell(const Place& at, int stage) {
  const Instruction& x = at.instruction();
  if (uses_weights(x) && x.stage != stage)
    refuse("driven", at, "a message-driven rank computes one stage; this one has stage ", stage);
  if (goes_back(x) && x.what != Value::none)
    refuse("driven", at, "a message-driven rank runs whole backwards");
  if (travels(x) && x.what != Value::activation && x.what != Value::activation_gradient)
    refuse("driven", at, "a message-driven rank sends activations and their gradients only");
}

/// Checks that backwards have the order of their forwards: the next one's forward has then run.
void check_driven_row(const Plan& plan, int rank) {
  const Row& row = plan.rows[rank];
  std::vector<int> forwards;
  std::set<int> seen;
  std::size_t backwards = 0;
  int stage = -1;
  for (int index = 0; index < static_cast<int>(row.size()); ++index) {
    const Place at{plan, rank, index};
    const Instruction& x = row[index];
    if (begins_pass(x) && stage < 0) stage = x.stage;
    check_driven_cell(at, stage);
    if (begins_pass(x) && seen.insert(x.micro).second) forwards.push_back(x.micro);
    if (!goes_back(x)) continue;
    if (backwards >= forwards.size() || forwards[backwards++] != x.micro)
      refuse("driven", at, "backwards of a message-driven rank have the order of its forwards");
  }
}

}  // namespace

void check_shape(const Plan& plan) {
  check_counts(plan);
  check_header(plan);
  for_each_cell(plan, [&](int rank, int index, const Instruction&) {
    const Place at{plan, rank, index};
    check_fields(at);
    check_names(at);
    check_kind(at);
  });
}

void check_driven(const Plan& plan) {
  if (plan.in_flight == 0) return;
  for (int rank = 0; rank < plan.ranks(); ++rank) check_driven_row(plan, rank);
}

}  // namespace plangrad::parallel
