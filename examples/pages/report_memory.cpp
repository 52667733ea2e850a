// A column of time shows its highest moment, so that no peak is lost.
// Chapter 06.
#include "examples/pages/report_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "autograd/backend.h"
#include "autograd/device.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {
using nlohmann::json;

namespace {

constexpr int categories = autograd::category_count;
using CategoryBytes = std::array<std::int64_t, categories>;

std::int64_t total_of(const CategoryBytes& bytes) {
  std::int64_t sum = 0;
  for (std::int64_t each : bytes) sum += each;
  return sum;
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

std::vector<std::int64_t> stage_elements(const Plan& plan, const Training& training) {
  std::vector<std::int64_t> result;
  const ParameterList& shared = training.shared.parameters;
  for (int stage = 0; stage < plan.stages; ++stage)
    result.push_back(
        Stage(training.model, training.cuts.at(stage), training.cuts.at(stage + 1), shared)
            .parameters()
            .numel());
  if (!plan.tied.empty()) result.push_back(shared.numel());
  return result;
}

std::vector<StateBytes> state_at_level(const VerifiedPlan& plan, const Training& training,
                                       int level, double optimizer) {
  const std::vector<std::int64_t> elements = stage_elements(plan.plan(), training);
  const std::vector<std::vector<int>> held_by = holders(plan.plan());
  const auto weight = static_cast<double>(size_of(training.dtype));
  const auto gradient = static_cast<double>(size_of(gradient_dtype(training.dtype)));
  std::vector<StateBytes> result(plan.plan().ranks());
  for (std::size_t stage = 0; stage < elements.size(); ++stage)
    for (int rank : held_by.at(stage)) {
      const auto n = static_cast<double>(elements[stage]);
      const auto shards = static_cast<double>(held_by[stage].size());
      const double versions = std::max(1, plan.facts().live_versions.at(rank));
      result[rank].weights += n * weight * versions / (level >= 3 ? shards : 1);
      result[rank].gradients += n * gradient / (level >= 2 ? shards : 1);
      result[rank].optimizer += n * optimizer / (level >= 1 ? shards : 1);
    }
  return result;
}

}  // namespace plangrad::parallel
