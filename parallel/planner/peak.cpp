// Sizes come from the stages' costs, from the codecs' own rules, and from the lists of collectives.
// Chapters 09 and 16.
#include "parallel/planner/peak.h"

#include "autograd/blank/blank_device.h"
#include "parallel/codecs/low_rank.h"
#include "parallel/codecs/message_codec.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {

/// The members of the groups in which a plan adds up each stage's gradients; 1: it is not summed.
static std::vector<int> members_of_sums(const Plan& plan) {
  std::vector<int> members(plan.stage_count(), 1);
  for (const Row& row : plan.rows)
    for (const Instruction& x : row)
      if (meets(x) && x.what == Value::gradient_sum)
        members[x.stage] = static_cast<int>(plan.groups[x.peer].size());
  return members;
}

/// Bytes of pieces that are on their way at once while `members` add up a buffer; those of the
/// first member, which has the most.
static double window_of(std::int64_t elements, int element, int members, const Plan& plan,
                        AllReduce how) {
  if (members < 2) return 0;
  const bool encodes_pieces = !plan.codec.is_none() && is_local(plan.codec);
  const bool scatters = plan.sharded > 0 && (plan.codec.is_none() || encodes_pieces);
  if (!scatters && !encodes_pieces) how = fitted(how, elements * element, members);
  Collective list = scatters ? reduce_scatter({how}, 0, members) : all_reduce({how}, 0, members);
  return static_cast<double>(window_bytes(list, elements, element));
}

/// Adds what the plan's codec remembers of a stage, and what it needs for a sum.
static void add_codec(Sizes& sizes, const StageCosts& stage, const Plan& plan, int members,
                      AllReduce reduction) {
  const DevicePtr device = blank_device();
  double code = 0, window = sizes.sum_window.back();
  std::unique_ptr<LowRank> factors;
  std::optional<BufferCodec> codec;
  if (is_local(plan.codec)) {
    codec.emplace(stage.parameters, plan.codec, RandomKey(0, ""), device);
    code = static_cast<double>(codec->encoded_bytes({0, stage.parameters.numel()}));
    window += code;
  } else {
    factors = make_low_rank(plan.codec, stage.parameters, 0, device);
    const std::int64_t elements = factors->most_buffered();
    window = 4.0 * static_cast<double>(elements) + window_of(elements, 4, members, plan, reduction);
  }
  sizes.residual.push_back(static_cast<double>(device->meter().live()));
  sizes.sum_code.push_back(code);
  if (members > 1) sizes.sum_window.back() = window;
}

Sizes sizes_of(const ModelCosts& costs, const Plan& plan, AllReduce reduction,
               const std::vector<int>& of_all) {
  const int weight = static_cast<int>(size_of(costs.settings.dtype));
  const int sum = static_cast<int>(size_of(gradient_dtype(costs.settings.dtype)));
  const auto bytes = [&](std::int64_t StageBytes::*member, int element = 1) {
    Sizes::List list;
    for (const StageCosts& stage : costs.stages)
      list.push_back(static_cast<double>(element * stage.bytes.*member));
    return list;
  };
  const StageBytes& first = costs.stages.front().bytes;
  Sizes sizes{.weights = bytes(&StageBytes::stored, weight),
              .sum = bytes(&StageBytes::stored, sum),
              .optimizer = bytes(&StageBytes::optimizer),
              .activations = bytes(&StageBytes::kept),
              .output = bytes(&StageBytes::output),
              .first_input = static_cast<double>(first.input),
              .waiting = bytes(&StageBytes::waiting),
              .forward = bytes(&StageBytes::forward),
              .backward = bytes(&StageBytes::backward),
              .input_part = bytes(&StageBytes::input_part),
              .weight_part = bytes(&StageBytes::weight_part),
              .opening = bytes(&StageBytes::opening),
              .opening_part = bytes(&StageBytes::opening_part),
              .sum_window = {},
              .norm = 8.0 * static_cast<double>(costs.training.whole.size()),
              .expanded = bytes(&StageBytes::elements, weight),
              .index = bytes(&StageBytes::pruned, 4),
              .losses = 4.0 * plan.per_step,
              .weight_element = weight,
              .sum_element = sum,
              .optimizer_element =
                  static_cast<int>(first.optimizer / std::max<std::int64_t>(1, first.stored))};
  const std::vector<int> members = of_all.empty() ? members_of_sums(plan) : of_all;
  sizes.shards = of_all;
  if (!plan.codec.is_none()) sizes.residual = sizes.sum_code = {};
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCosts& each = costs.stages[stage];
    if (each.bytes.pruned == 0) sizes.expanded[stage] = 0;
    sizes.sum_window.push_back(window_of(each.bytes.stored, sum, members[stage], plan, reduction));
    if (!plan.codec.is_none()) add_codec(sizes, each, plan, members[stage], reduction);
  }
  return sizes;
}

Costs one_by_one(Costs costs) {
  constexpr double moment = 1e-9;
  const double longest = std::ranges::max(costs.forward);
  if (costs.latency == 0) costs.latency = moment * longest;
  for (double& seconds : costs.step) seconds = std::max(seconds, moment * longest);
  return costs;
}

/// All that ranks hold during a plan, with what instructions take.
static std::vector<Holding> all_held(const Plan& plan, const Timeline& timeline) {
  std::vector<Holding> all = holdings(plan, timeline);
  const std::vector<Holding> beside = under_way(plan, timeline, all);
  all.insert(all.end(), beside.begin(), beside.end());
  return all;
}

std::vector<std::vector<MemoryLevel>> memory_levels(const Plan& plan, const Timeline& timeline,
                                                    const Sizes& sizes) {
  return memory_levels(plan, all_held(plan, timeline), sizes);
}

/// Bytes of the weights that each rank has after the plan.
static std::vector<double> last_weights(const Plan& plan, const std::vector<Holding>& held,
                                        const Sizes& sizes) {
  std::vector<double> bytes(plan.ranks());
  const std::vector<std::vector<int>> ranks = holders(plan);
  for (const Holding& each : held)
    if (each.lives_on && memory_of(each) == Memory::weights)
      bytes[each.rank] += bytes_of(each, sizes, plan, ranks);
  return bytes;
}

/// Bytes that a rank gathers to save the state of one stage, whose first holder it is.
static double gathered(const Plan& plan, int rank, const Sizes& sizes) {
  double most = 0;
  const std::vector<std::vector<int>> ranks = holders(plan);
  for (int stage = 0; stage < std::ssize(ranks); ++stage) {
    const std::size_t parts = sizes.shards.empty() ? ranks[stage].size() : sizes.shards[stage];
    if (parts < 2 || ranks[stage].front() != rank) continue;
    most = std::max(most, value_at(stage, sizes.optimizer));
    if (plan.sharded == 3) most = std::max(most, value_at(stage, sizes.weights));
  }
  return most;
}

/// The last cell of a rank that has begun at this time, and is a computation if one runs.
static const Record* cell_at(const Timeline& timeline, int rank, double seconds) {
  const Record* found = nullptr;
  const auto is_computing = [&](const Record& record) {
    return record.lane == Lane::compute && record.start <= seconds && seconds < record.end;
  };
  for (const Record& record : timeline.records) {
    if (record.rank != rank || record.start > seconds) continue;
    if (!found || is_computing(record) || (!is_computing(*found) && record.start >= found->start))
      found = &record;
  }
  return found;
}

std::vector<Peak> peaks(const Plan& plan, const Timeline& timeline, const Sizes& sizes,
                        const std::vector<std::optional<Memory>>& kinds) {
  const std::vector<Holding> held = all_held(plan, timeline);
  const std::vector<double> weights = last_weights(plan, held, sizes);
  const auto all_levels = memory_levels(plan, held, sizes);
  std::vector<Peak> all;
  for (const std::optional<Memory>& kind : kinds)
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const std::vector<MemoryLevel>& levels = all_levels[rank];
      Peak& peak = all.emplace_back();
      peak.rank = rank;
      std::pair most(-1.0, -1.0);  // of the kind, and of all
      for (const MemoryLevel& level : levels) {
        const double total = level.total();
        const std::pair now(kind ? level.bytes[static_cast<int>(*kind)] : total, total);
        if (now > most) most = now, peak.level = level;
      }
      if (const Record* record = cell_at(timeline, rank, peak.level.seconds)) {
        peak.cell = record->cell;
        peak.during = record->instruction;
      }
      if (plan.sharded > 0)
        peak.saving = weights[rank] + levels.back().total() + gathered(plan, rank, sizes);
    }
  return all;
}

const Peak& fullest(const std::vector<Peak>& peaks) {
  return *std::ranges::max_element(peaks, {}, &Peak::total);
}

}  // namespace plangrad::parallel
