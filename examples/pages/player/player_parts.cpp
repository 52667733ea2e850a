// Records and holdings as columns. Chapter 06.
#include "examples/pages/player/player_parts.h"

#include <nlohmann/json.hpp>

#include "examples/pages/plan_facts.h"
#include "examples/pages/player/columns.h"
#include "parallel/drawing/figure.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;

/// Names of the numbers in the column op: the parts of a backward have numbers of their own.
constexpr std::array op_names = {"forward",
                                 "backward",
                                 "update",
                                 "drop",
                                 "send",
                                 "receive",
                                 "reduce",
                                 "fold",
                                 "norm",
                                 "gather",
                                 "backward, input part",
                                 "backward, weight part"};
constexpr std::array value_names = {
    "",     "activations", "gradient",    "gradient sum", "weights",     "norm",
    "turn", "input part",  "weight part", "activations",  "gradient sum"};

int op_number(const Instruction& x) {
  if (x.op == Op::backward && x.what == Value::input_part) return 10;
  if (x.op == Op::backward && x.what == Value::weight_part) return 11;
  return static_cast<int>(x.op);
}

/// A column of a list: one number for each entry.
template <class Number, class Entry, class Of>
std::string column(const std::vector<Entry>& entries, const Of& of) {
  std::vector<Number> numbers;
  numbers.reserve(entries.size());
  for (const Entry& entry : entries) numbers.push_back(static_cast<Number>(of(entry)));
  return pack(numbers);
}

std::string whole_numbers(const std::vector<int>& numbers) {
  return pack(std::vector<std::int64_t>(numbers.begin(), numbers.end()));
}

Json records_json(const Scene& scene) {
  const std::vector<Record>& records = scene.timeline.records;
  std::vector<int> row_begin(scene.timeline.ranks + 1, 0), again;
  for (const Record& record : records) ++row_begin[record.rank + 1];
  for (int rank = 0; rank < scene.timeline.ranks; ++rank) row_begin[rank + 1] += row_begin[rank];
  for (bool repeated : recomputations(scene.timeline)) again.push_back(repeated);
  using Whole = std::int64_t;
  return {{"row_begin", row_begin},
          {"cell", whole_numbers(scene.written)},
          {"op", column<Whole>(records, [](auto& x) { return op_number(x.instruction); })},
          {"what", column<Whole>(records, [](auto& x) { return x.instruction.what; })},
          {"stage", column<Whole>(records, [](auto& x) { return x.instruction.stage; })},
          {"micro", column<Whole>(records, [](auto& x) { return x.instruction.micro; })},
          {"version", column<Whole>(records, [](auto& x) { return x.instruction.version; })},
          {"peer", column<Whole>(records, [](auto& x) { return x.instruction.peer; })},
          {"start", column<double>(records, [](auto& x) { return x.start; })},
          {"end", column<double>(records, [](auto& x) { return x.end; })},
          {"bytes", column<double>(records, [](auto& x) { return x.bytes; })},
          {"cause", whole_numbers(scene.causes)},
          {"other", whole_numbers(other_ends(scene.timeline))},
          {"again", whole_numbers(again)}};
}

Json held_json(const std::vector<Holding>& held) {
  using Whole = std::int64_t;
  return {{"rank", column<Whole>(held, [](auto& x) { return x.rank; })},
          {"hold", column<Whole>(held, [](auto& x) { return x.hold; })},
          {"what", column<Whole>(held, [](auto& x) { return x.name.what; })},
          {"stage", column<Whole>(held, [](auto& x) { return x.name.stage; })},
          {"number", column<Whole>(held, [](auto& x) { return x.name.number; })},
          {"start", column<double>(held, [](auto& x) { return x.start; })},
          {"end", column<double>(held, [](auto& x) { return x.end; })}};
}

/// Counts, for each stage, the ranks that keep its state or a shard of it. The list is empty if a
/// cell names a stage that does not exist.
std::vector<std::size_t> sharers(const Plan& plan) {
  const auto is_known = [&](int stage) { return stage < plan.stage_count(); };
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < plan.ranks(); };
  for (const Row& row : plan.rows)
    if (!std::ranges::all_of(row, is_known, &Instruction::stage)) return {};
  if (static_cast<int>(plan.home.size()) > plan.stage_count() ||
      !std::ranges::all_of(plan.home, is_rank) || !std::ranges::all_of(plan.tied, is_known))
    return {};
  std::vector<std::size_t> counts;
  try {
    for (const std::vector<int>& ranks : holders(plan)) counts.push_back(ranks.size());
  } catch (const std::exception&) {  // a microbatch that does not exist
    return {};
  }
  return counts;
}

}  // namespace

void add_scene(const Scene& scene, const std::vector<ShownModel>& models, Json& out) {
  const std::vector<Holding> held = holdings(scene.ran, scene.timeline);
  Json names = Json::array(), idle = Json::array(), peaks = Json::object();
  for (int hold = 0; hold < hold_kinds; ++hold) {
    names.push_back(name_of(Hold(hold)));
    peaks[name_of(Hold(hold))] = most_held(held, Hold(hold), scene.timeline.ranks);
  }
  out["seconds"] = scene.timeline.makespan();
  out["bars"] = scene.timeline.bars;
  out["ops"] = op_names;
  out["values"] = value_names;
  out["holds"] = names;
  out["records"] = records_json(scene);
  out["held"] = held_json(held);
  out["memory"] = memory_json(scene.ran, held, models);
  for (double busy : busy_shares(scene.timeline)) idle.push_back(std::max(0.0, 1 - busy));
  out["idle"] = idle;
  out["peaks"] = peaks;
}

Json header_json(const Plan& plan) {
  Json header = header_of(plan);
  header["ranks"] = plan.ranks();
  header["holders"] = sharers(plan);
  return header;
}

}  // namespace plangrad::examples
