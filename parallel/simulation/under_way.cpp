// The memory that ranks have beside values, as the engine takes it: posting a receive takes room,
// computing takes workspace, and one tensor may be two values.
// Not here: its bytes (memory.cpp). Chapters 03 and 09.
#include <cmath>
#include <set>

#include "parallel/simulation/holdings.h"

namespace plangrad::parallel {
namespace {

/// What a computation is called: after what it makes.
Value made_by(const Instruction& x) {
  if (begins_pass(x)) return Value::activation;
  return x.what == Value::none ? Value::activation_gradient : x.what;
}

class RowUnderWay {
 public:
  RowUnderWay(const Plan& plan, double makespan, std::vector<Holding>& out)
      : plan_(plan), makespan_(makespan), out_(out) {}

  void add(const Record& record) {
    const Instruction& x = record.instruction;
    if (begins_pass(x) || goes_back(x)) compute(record);
    if (receives(x)) hold(record.rank, Hold::room, value_of(x), issued_, record.end);
    if (meets(x) && plan_.groups[x.peer].size() > 1) meet(record);
    if (drops(x) && x.what == Value::gradient_sum)  // copies its shard, and then frees the whole
      hold(record.rank, Hold::sum_shard, {Value::open_sum, x.stage, x.version},
           just_before(record.end), record.end);
    if (drops(x) && x.what == Value::weights)
      if (const auto read = read_.extract({x.stage, x.version}))
        hold(record.rank, Hold::expanded, value_of(x), read.mapped(), record.end);
    if (is_compute(x)) issued_ = std::max(issued_, record.end);
  }

 private:
  void compute(const Record& record) {
    const Instruction& x = record.instruction;
    const bool opens = adds_gradient(x) && summed_.insert({x.stage, plan_.made_by(x.micro)}).second;
    hold(record.rank, opens ? Hold::opening : Hold::working, {made_by(x), x.stage, x.micro},
         record.start, record.end);
    if (plan_.sharded == 3) read_.try_emplace({x.stage, x.version}, record.start);
    const std::pair place(x.stage, x.micro);
    if (x.what == Value::input_part) first_part_[place] = record.end;
    if (const auto first = first_part_.find(place);
        first != first_part_.end() && x.what == Value::weight_part)
      hold(record.rank, Hold::waiting, {Value::stash, x.stage, x.micro}, first->second, record.end);
  }

  void meet(const Record& record) {
    const Instruction& x = record.instruction;
    const bool is_norm = x.what == Value::norm;  // which are kept to the end
    hold(record.rank, Hold::working, {x.what, is_norm ? 0 : x.stage, x.version}, issued_,
         is_norm ? makespan_ : just_before(record.end));
    if (x.what == Value::weights && plan_.sharded == 3)
      hold(record.rank, Hold::room, value_of(x), issued_, record.end);
  }

  /// A moment between what comes before and what comes next at a time.
  static double just_before(double seconds) {
    return std::nextafter(seconds, -std::numeric_limits<double>::infinity());
  }

  void hold(int rank, Hold kind, const Name& name, double start, double end) {
    out_.push_back({rank, kind, name, start, std::max(start, end)});
  }

  const Plan& plan_;
  const double makespan_;
  std::vector<Holding>& out_;
  double issued_ = 0;  // when the computations so far are done, and messages behind them begin
  std::map<std::pair<int, int>, double> read_;        // gathered (stage, version): since when
  std::set<std::pair<int, int>> summed_;              // (stage, version): sums that have begun
  std::map<std::pair<int, int>, double> first_part_;  // (stage, micro): when its first part ended
};

using Stashes = std::multimap<std::tuple<int, int, int>, const Holding*>;  // rank, stage, micro

Stashes stashes_of(const std::vector<Holding>& held) {
  Stashes found;
  for (const Holding& each : held)
    if (each.hold == Hold::activations)
      found.insert({{each.rank, each.name.stage, each.name.number}, &each});
  return found;
}

}  // namespace

std::vector<Holding> under_way(const Plan& plan, const Timeline& timeline,
                               std::vector<Holding>& held) {
  std::vector<Holding> all;
  auto record = timeline.records.begin();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    RowUnderWay row(plan, timeline.makespan(), all);
    for (; record != timeline.records.end() && record->rank == rank; ++record) row.add(*record);
  }
  const Stashes stashes = stashes_of(held);
  auto of = [&](const Holding& each, int stage) {
    const auto [first, last] = stashes.equal_range({each.rank, stage, each.name.number});
    return std::ranges::subrange(first, last);
  };
  for (Holding& each : held) {
    const int stage = each.name.stage;
    if (each.hold == Hold::leaving && each.name.what == Value::activation)
      for (const auto& [place, stash] : of(each, stage))
        if (stash->start <= each.start) each.start = std::clamp(stash->end, each.start, each.end);
    if (each.hold != Hold::activations || stage == 0) continue;
    for (const auto& [place, before] : of(each, stage - 1))
      if (const double start = std::max(each.start, before->start),
          end = std::min(each.end, before->end);
          start < end)
        all.push_back(
            {each.rank, Hold::twice, {Value::activation, stage - 1, each.name.number}, start, end});
  }
  return all;
}

}  // namespace plangrad::parallel
