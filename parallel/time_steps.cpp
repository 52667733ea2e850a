// Moments that differ by rounding alone are one: a billionth of the whole time apart.
// Chapter 08.
#include "parallel/time_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "autograd/error.h"
#include "parallel/costs.h"

namespace paragrad::parallel {
namespace {

bool computes(const Instruction& x) { return x.op == Op::forward || x.op == Op::backward; }

struct Span {
  double start = 0, end = 0;
};

/// How long the activations of each forward live. A forward that is not followed by a backward or a
/// drop, because it is repeated later, keeps nothing.
std::vector<Span> lives(const Timeline& timeline) {
  std::vector<Span> spans;
  std::map<std::tuple<int, int, int>, std::size_t> latest;  // by rank, stage, microbatch
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    const std::tuple key{record.rank, x.stage, x.micro};
    bool dropped = x.op == Op::drop && x.what == Value::activation;
    if (x.op == Op::forward) {
      latest[key] = spans.size();
      spans.push_back({record.start, record.end});
    } else if (x.op == Op::backward || dropped) {
      if (auto found = latest.find(key); found != latest.end())
        spans[found->second].end = record.end;
    }
  }
  return spans;
}

/// A message's name, which is the same at all its ends: sender and receiver, or the group; what is
/// sent; how many of that name came before.
using Name = std::tuple<Op, int, int, Value, int, int, int, int>;

std::vector<Name> names(const Timeline& timeline) {
  std::map<std::pair<int, Name>, int> before;  // by rank and name
  std::vector<Name> result;
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    bool received = x.op == Op::recv;
    int from = received ? x.peer : x.op == Op::send ? record.rank : -1;
    int to = received ? record.rank : x.peer;
    Name name{received ? Op::send : x.op, from, to, x.what, x.stage, x.micro, x.version, 0};
    std::get<7>(name) = before[{record.rank, name}]++;
    result.push_back(name);
  }
  return result;
}

/// For each record, when all ends of it have begun.
std::vector<double> beginnings(const Timeline& timeline) {
  const std::vector<Name> of = names(timeline);
  std::map<Name, double> latest;
  for (std::size_t i = 0; i < of.size(); ++i)
    latest[of[i]] = std::max(latest[of[i]], timeline.records[i].start);
  std::vector<double> result;
  for (const Name& name : of) result.push_back(latest[name]);
  return result;
}

/// Whether it is a stage's value; of a collective's members, the first one speaks for all.
bool counts(const Sending& sending, const Plan& plan) {
  const Instruction& x = sending.instruction;
  if (x.what == Value::turn || x.what == Value::norm) return false;
  return x.op == Op::send || plan.groups[x.peer].front() == sending.rank;
}

/// When each update of the plan begins: with the first forward of its first microbatch.
std::vector<double> update_starts(const Plan& plan, const Timeline& timeline) {
  std::map<int, double> starts;  // by microbatch
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    if (x.op != Op::forward || x.stage != 0) continue;
    auto [at, added] = starts.try_emplace(x.micro, record.start);
    at->second = std::min(at->second, record.start);
  }
  std::vector<double> result;
  for (int step = 0; step < plan.steps; ++step)
    if (auto found = starts.find(plan.first_micro() + step * plan.per_step); found != starts.end())
      result.push_back(found->second);
  return result;
}
}  // namespace

std::vector<Level> activations_alive(const Timeline& timeline) {
  struct Change {
    double seconds = 0;
    int sum = 0;
  };
  const double billionth = timeline.makespan() / 1e9;
  std::map<std::int64_t, Change> changes;
  auto change = [&](double seconds, int by) {
    auto at = changes.try_emplace(std::llround(seconds / billionth), Change{seconds, 0}).first;
    at->second.sum += by;
  };
  for (const Span& life : lives(timeline)) {
    change(life.start, 1);
    change(life.end, -1);
  }
  std::vector<Level> levels{{0, 0}};
  for (const auto& [tick, at] : changes) {
    if (at.sum == 0) continue;
    if (tick == 0) levels.pop_back();
    levels.push_back({at.seconds, (levels.empty() ? 0 : levels.back().count) + at.sum});
  }
  return levels;
}

double time_step(const Timeline& timeline) {
  double seconds = 0;
  int count = 0, stages = 0;
  for (const Record& record : timeline.records) {
    if (!computes(record.instruction)) continue;
    seconds += record.end - record.start;
    count += record.instruction.what != Value::input_part;
    stages = std::max(stages, record.instruction.stage + 1);
  }
  if (count == 0) return 0;
  return seconds / count * (timeline.ranks == 1 ? stages : 1);
}

std::vector<Sending> sendings(const Plan& plan, const Timeline& timeline) {
  const std::vector<double> begin = beginnings(timeline);
  std::vector<Sending> result;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    const Record& record = timeline.records[i];
    const std::int64_t number = rounds(record.instruction, plan);
    for (std::int64_t round = 0; round < number; ++round) {
      double after = std::max(record.end - begin[i], 0.0) * static_cast<double>(round);
      std::int64_t bytes = record.bytes * (round + 1) / number - record.bytes * round / number;
      result.push_back(
          {record.rank, record.instruction, begin[i] + after / static_cast<double>(number), bytes});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return result;
}

std::vector<Sending> inner_sendings(const Plan& plan, const Timeline& timeline) {
  std::vector<Sending> result = sendings(plan, timeline);
  const std::vector<double> starts = update_starts(plan, timeline);
  if (starts.size() < 3) return result;
  std::erase_if(result, [from = starts[1], to = starts.back()](const Sending& sending) {
    return sending.seconds < from || sending.seconds >= to;
  });
  return result;
}

std::int64_t largest_burst(const std::vector<Sending>& sendings, double seconds) {
  std::int64_t sum = 0, largest = 0;
  auto oldest = sendings.begin();
  for (const Sending& sending : sendings) {
    while (oldest->seconds + seconds * (1 - 1e-9) < sending.seconds) sum -= (oldest++)->bytes;
    largest = std::max(largest, sum += sending.bytes);
  }
  return largest;
}

namespace {

/// Fills in the time steps of a timeline.
class Counting {
 public:
  Counting(const Plan& plan, const Timeline& timeline, double length)
      : plan_(plan), timeline_(timeline), count_(1) {
    result_.length = length;
    count_ = at(timeline.makespan()) + 1;
  }

  TimeSteps result() {
    count_alive();
    count_sendings();
    count_computations();
    find_middle();
    return result_;
  }

 private:
  /// The time step of a moment.
  int at(double seconds) const { return static_cast<int>(seconds / result_.length + 1e-6); }
  /// The last time step that begins before it.
  int before(double seconds) const { return static_cast<int>(seconds / result_.length - 1e-6); }

  void count_alive() {
    result_.alive.resize(count_);
    const std::vector<Level> levels = activations_alive(timeline_);
    for (std::size_t i = 0; i + 1 < levels.size(); ++i)
      for (int t = at(levels[i].seconds); t <= before(levels[i + 1].seconds); ++t)
        result_.alive[t] = std::max(result_.alive[t], levels[i].count);
  }

  void count_sendings() {
    result_.sums.resize(count_);
    result_.values.resize(count_);
    result_.bytes.resize(count_);
    for (const Sending& sending : sendings(plan_, timeline_)) {
      const int t = at(sending.seconds);
      result_.bytes[t] += sending.bytes;
      if (!counts(sending, plan_)) continue;
      ++result_.values[t];
      result_.sums[t] += sending.instruction.what == Value::gradient_sum;
    }
  }

  void count_computations() {
    result_.computations.assign(count_, std::vector<int>(plan_.stages, 0));
    for (const Record& record : timeline_.records)
      if (computes(record.instruction))
        ++result_.computations[at(record.start)].at(record.instruction.stage);
  }

  void find_middle() {
    const std::vector<double> starts = update_starts(plan_, timeline_);
    result_.last = count_ - 1;
    if (starts.size() < 2) return;
    const std::size_t middle = std::min(starts.size() / 2, starts.size() - 2);
    result_.first = at(starts[middle]);
    result_.last = std::max(result_.first + 1, at(starts[middle + 1]));
  }

  const Plan& plan_;
  const Timeline& timeline_;
  int count_;
  TimeSteps result_;
};

}  // namespace

TimeSteps time_steps(const Plan& plan, const Timeline& timeline) {
  const double length = time_step(timeline);
  PG_CHECK(length > 0, "time steps: no forward or backward takes time");
  return Counting(plan, timeline, length).result();
}

}  // namespace paragrad::parallel
