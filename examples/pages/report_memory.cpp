// A column of time shows its highest moment, so that no peak is lost. Messages tell their encoded
// bytes; which count of values gave them is found by trying counts. Chapters 06 and 10.
#include "examples/pages/report_memory.h"

#include <numeric>

#include "autograd/device.h"
#include "examples/pages/metrics_table.h"
#include "examples/pages/plan_facts.h"
#include "parallel/codecs/message_codec.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::examples {
using nlohmann::json;

namespace {

constexpr double f32_bytes = 4;

/// The smallest count of values whose message has `bytes`.
std::int64_t values_in(const Instruction& x, const Plan& plan, DType dtype, std::int64_t bytes) {
  const ChannelCodec codec(plan.channel, {});
  std::int64_t low = 1, high = 1;
  while (codec.encoded_bytes(x, high, dtype) < bytes && high < 1'000'000'000'000) high *= 2;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    (codec.encoded_bytes(x, middle, dtype) < bytes ? low : high) =
        codec.encoded_bytes(x, middle, dtype) < bytes ? middle + 1 : middle;
  }
  return low;
}

}  // namespace

double bytes_in_f32(const Record& record, const Plan& plan, const ModelCosts& model) {
  const Instruction& x = record.instruction;
  const auto sent = static_cast<double>(record.bytes);
  if (record.bytes == 0 || x.stage < 0) return sent;
  if (x.what == Value::gradient_sum || x.what == Value::weights) {
    Costs costs;
    costs.weight_bytes.clear();
    for (const StageCosts& stage : model.stages)
      costs.weight_bytes.push_back(stage.bytes.elements * static_cast<std::int64_t>(f32_bytes));
    return static_cast<double>(bytes_sent(x, record.rank, plan, costs));
  }
  if (x.what != Value::activation && x.what != Value::activation_gradient) return sent;
  if (plan.channel.is_none())
    return sent * f32_bytes / static_cast<double>(size_of(model.settings.dtype));
  return f32_bytes * static_cast<double>(values_in(x, plan, model.settings.dtype, record.bytes));
}

/// Bytes by slot and kind.
static json flow_json(const Plan& plan, const Timeline& measured,
                      const std::vector<std::string>& kinds) {
  constexpr double most_slots = 200;
  const double seconds = measured.makespan(), step = time_step(measured);
  if (step <= 0 || kinds.empty()) return nullptr;
  const double slot = step * std::max(1.0, std::ceil(seconds / step / most_slots));
  std::vector<std::vector<std::int64_t>> slots(
      kinds.size(), std::vector<std::int64_t>(static_cast<std::size_t>(seconds / slot) + 1));
  for (const Sending& sending : sendings(plan, measured)) {
    const auto kind = std::ranges::find(kinds, message_kind(sending.instruction));
    if (kind == kinds.end()) continue;
    auto& line = slots.at(kind - kinds.begin());
    line.at(std::min(line.size() - 1, static_cast<std::size_t>(sending.seconds / slot))) +=
        sending.bytes;
  }
  return {{"seconds", rounded(slot, 5)}, {"slots", slots}};
}

json wire_json(const Plan& plan, const Timeline& measured, const ModelCosts& model) {
  std::map<std::string, std::vector<double>> ranks;  // bytes by kind and rank
  std::map<std::string, double> f32;
  for (const Record& record : measured.records) {
    if (record.bytes == 0) continue;
    const std::string kind = message_kind(record.instruction);
    auto& bytes = ranks.try_emplace(kind, measured.ranks).first->second;
    bytes.at(record.rank) += static_cast<double>(record.bytes) / plan.steps;
    f32[kind] += bytes_in_f32(record, plan, model) / plan.steps;
  }
  json result{{"kinds", json::array()},
              {"sent", json::array()},
              {"f32", json::array()},
              {"ranks", json::array()}};
  std::vector<std::string> kinds;
  for (const auto& [kind, by_rank] : ranks) {
    kinds.push_back(kind);
    const double sum = std::accumulate(by_rank.begin(), by_rank.end(), 0.0);
    json line = json::array();
    for (double bytes : by_rank) line.push_back(std::llround(bytes));
    result["kinds"].push_back(kind);
    result["sent"].push_back(std::llround(sum));
    result["f32"].push_back(std::llround(f32[kind]));
    result["ranks"].push_back(line);
  }
  result["flow"] = flow_json(plan, measured, kinds);
  result["burst_seconds"] = rounded(time_step(measured), 5);
  result["largest_burst"] = largest_burst(inner_sendings(plan, measured), time_step(measured));
  return result;
}

namespace {

constexpr int categories = autograd::category_count;
using CategoryBytes = std::array<std::int64_t, categories>;

std::int64_t total_of(const CategoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

/// A rank's bytes at its highest moment, and in columns of time.
struct RankMemory {
  CategoryBytes live{}, peak{};
  std::vector<CategoryBytes> columns;
  std::size_t filled = 0;

  void add(std::size_t column, std::size_t category, std::int64_t bytes) {
    for (; filled < column; ++filled) columns[filled + 1] = live;  // what it held when they began
    live[category] = bytes;
    if (total_of(live) > total_of(columns[column])) columns[column] = live;
    if (total_of(live) > total_of(peak)) peak = live;
  }
};

json line_of(const RankMemory& rank, int category, double unit) {
  json line = json::array();
  bool changes = false;
  for (const CategoryBytes& column : rank.columns) {
    line.push_back(std::llround(static_cast<double>(column[category]) / unit));
    changes |= line.back() != line.front();
  }
  return changes ? line : line.front();
}

}  // namespace

json memory_json(const std::vector<MemorySample>& samples, int ranks, const std::vector<int>& shown,
                 double seconds) {
  const std::size_t count =
      std::clamp<std::size_t>(8000 / std::max<std::size_t>(1, shown.size()), 60, 240);
  std::map<std::string, std::size_t> place;
  json result{{"categories", json::array()}, {"peaks", json::array()}, {"lines", json::object()}};
  for (int i = 0; i < categories; ++i) {
    const char* name = name_of(static_cast<autograd::Category>(i));
    place[name] = i;
    result["categories"].push_back(name);
  }
  std::vector<RankMemory> all(ranks);
  for (RankMemory& rank : all) rank.columns.resize(count);
  for (const MemorySample& sample : samples) {
    const double at = seconds > 0 ? sample.seconds / seconds * static_cast<double>(count) : 0;
    const auto column = std::min(count - 1, static_cast<std::size_t>(std::max(at, 0.0)));
    RankMemory& rank = all.at(sample.rank);
    rank.add(std::max(column, rank.filled), place.at(sample.category), sample.bytes);
  }
  std::int64_t highest = 1;
  for (RankMemory& rank : all) {
    for (; rank.filled + 1 < count; ++rank.filled) rank.columns[rank.filled + 1] = rank.live;
    result["peaks"].push_back(rank.peak);
    highest = std::max(highest, total_of(rank.peak));
  }
  const double unit = std::max(1.0, static_cast<double>(highest) / 5000);
  result["unit"] = unit;
  for (int rank : shown)
    for (int i = 0; i < categories; ++i)
      result["lines"][std::to_string(rank)].push_back(line_of(all.at(rank), i, unit));
  return result;
}

/// The plan whose state is sharded at another level: its computations, with other messages.
static Plan at_level(int level, Plan plan) {
  for (Row& row : plan.rows)
    std::erase_if(row, [](const Instruction& x) {
      return !uses_weights(x) && !makes_version(x) && !(drops(x) && x.what == Value::activation);
    });
  plan.groups.clear();
  plan.sharded = level;
  return plan_of_rows(std::move(plan));
}

json levels_json(const RecordedUpdates& recorded, const ModelCosts& model, const Summing& sums) {
  const auto is_index = [](const MemorySample& sample) {
    return sample.bytes > 0 && sample.category == name_of(autograd::Category::index);
  };
  if (std::ranges::any_of(recorded.memory, is_index)) return nullptr;
  const Plan& plan = recorded.plan;
  const Costs costs = one_by_one(measured_costs(plan, recorded.timeline, sums));
  const bool is_shared = std::ranges::any_of(
      holders(plan), [](const std::vector<int>& ranks) { return ranks.size() > 1; });
  json levels = json::array();
  for (int level = 0; level <= 3; ++level) {
    json& memory = levels.emplace_back();
    if (level != plan.sharded && !is_shared) continue;
    try {
      const auto own = verify(level == plan.sharded ? plan : at_level(level, plan));
      check_codecs(own.plan());
      const Plan ran = in_order(own.plan(), costs);
      const auto all = peaks(ran, simulate(own, costs), sizes_of(model, ran, sums.how));
      std::vector<double> totals;
      for (const Peak& rank : all) totals.push_back(rank.level.total());
      memory = memory_json(totals, all[std::ranges::max_element(totals) - totals.begin()].level);
    } catch (const Error&) {  // such as weights that travel, which have no shards
    }
  }
  return levels;
}

}  // namespace plangrad::examples
