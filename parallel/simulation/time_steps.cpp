// What lives and what is sent, from the records alone; a message begins when all its ends have.
// Not here: what a message costs (costs.h). Chapters 06 and 08.
#include "parallel/simulation/time_steps.h"

#include <cmath>
#include <tuple>

namespace plangrad::parallel {
namespace {

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
    bool dropped = drops(x) && x.what == Value::activation;
    if (begins_pass(x)) {
      latest[key] = spans.size();
      spans.push_back({record.start, record.end});
    } else if (uses_weights(x) || dropped) {
      if (auto found = latest.find(key); found != latest.end())
        spans[found->second].end = record.end;
    }
  }
  return spans;
}

/// For each record, the time in seconds at which all its ends have begun: those of a message, or
/// the members of a group in their k-th meeting.
std::vector<double> beginnings(const Timeline& timeline) {
  const std::vector<int> others = other_ends(timeline);
  std::map<std::pair<int, int>, int> met;        // by rank and group
  std::map<std::pair<int, int>, double> latest;  // by group and meeting
  std::vector<int> meeting;
  for (const Record& record : timeline.records) {
    const int group = record.instruction.peer;
    meeting.push_back(meets(record.instruction) ? met[{record.rank, group}]++ : -1);
    if (meeting.back() < 0) continue;
    double& begun = latest[{group, meeting.back()}];
    begun = std::max(begun, record.start);
  }
  std::vector<double> result;
  for (std::size_t i = 0; i < timeline.records.size(); ++i) {
    const Record& record = timeline.records[i];
    const double other = others[i] < 0 ? 0 : timeline.records[others[i]].start;
    result.push_back(meeting[i] >= 0 ? latest[{record.instruction.peer, meeting[i]}]
                                     : std::max(record.start, other));
  }
  return result;
}

/// How often a rank sends in an instruction, if it sends equal parts: once in a send; in a
/// collective of a group of N, by ring or scatter, 1/N of the value in each of
///   all-reduce: 2 (N-1);  gather, and reduction of a sharded plan's sum: N-1
std::int64_t rounds(const Instruction& x, const Plan& plan) {
  if (!meets(x)) return sends(x) ? 1 : 0;
  const bool sends_once =
      x.what == Value::weights || (x.what == Value::gradient_sum && plan.sharded > 0);
  return (sends_once ? 1 : 2) * (std::ssize(plan.groups[x.peer]) - 1);
}

}  // namespace

/// Treats moments that differ by rounding alone, a billionth of the makespan, as one.
std::vector<Level> activations_alive(const Timeline& timeline) {
  const double billionth = timeline.makespan() / 1e9;
  std::map<std::int64_t, Level> changes;
  auto change = [&](double seconds, int by) {
    auto at = changes.try_emplace(std::llround(seconds / billionth), Level{seconds, 0}).first;
    at->second.count += by;
  };
  for (const Span& life : lives(timeline)) {
    change(life.start, 1);
    change(life.end, -1);
  }
  std::vector<Level> levels{{0, 0}};
  for (const auto& [tick, at] : changes) {
    if (at.count == 0) continue;
    if (tick == 0) levels.pop_back();
    levels.push_back({at.seconds, (levels.empty() ? 0 : levels.back().count) + at.count});
  }
  return levels;
}

double time_step(const Timeline& timeline) {
  double seconds = 0;
  int count = 0, stages = 0;
  for (const Record& record : timeline.records) {
    if (!uses_weights(record.instruction)) continue;
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
  std::ranges::stable_sort(result, {}, &Sending::seconds);
  return result;
}

std::vector<double> update_starts(const Plan& plan, const Timeline& timeline) {
  std::map<int, double> starts;  // by microbatch
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    if (!begins_pass(x) || x.stage != 0) continue;
    auto [at, added] = starts.try_emplace(x.micro, record.start);
    at->second = std::min(at->second, record.start);
  }
  std::vector<double> result;
  for (int step = 0; step < plan.steps; ++step)
    if (auto found = starts.find(plan.first_micro() + step * plan.per_step); found != starts.end())
      result.push_back(found->second);
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

}  // namespace plangrad::parallel
