// What lives and what is sent, from the records alone; a message begins when all its ends have.
// Not here: what a message costs (costs.h).
// Chapters 06 and 08.
#include "parallel/simulation/time_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "autograd/error.h"
#include "parallel/simulation/costs.h"

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

/// Whether a sending counts as a stage's value; in a collective, only the first member's does.
bool counts(const Sending& sending, const Plan& plan) {
  const Instruction& x = sending.instruction;
  if (x.what == Value::turn || x.what == Value::norm) return false;
  return sends(x) || plan.groups[x.peer].front() == sending.rank;
}

void count_alive(const Timeline& timeline, TimeSteps& steps) {
  const std::vector<Level> levels = activations_alive(timeline);
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    // The last time step that begins before the level ends.
    const int last = static_cast<int>(levels[i + 1].seconds / steps.length - 1e-6);
    for (int t = steps.at(levels[i].seconds); t <= last; ++t)
      steps.alive[t] = std::max(steps.alive[t], levels[i].count);
  }
}

void count_sendings(const Plan& plan, const Timeline& timeline, TimeSteps& steps) {
  for (const Sending& sending : sendings(plan, timeline)) {
    const int t = steps.at(sending.seconds);
    steps.bytes[t] += sending.bytes;
    if (!counts(sending, plan)) continue;
    ++steps.values[t];
    steps.sums[t] += sending.instruction.what == Value::gradient_sum;
  }
}

/// When each update of the plan begins: with the first forward of its first microbatch.
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

void find_middle(const Plan& plan, const Timeline& timeline, TimeSteps& steps) {
  const std::vector<double> starts = update_starts(plan, timeline);
  steps.last = static_cast<int>(steps.alive.size()) - 1;
  if (starts.size() < 2) return;
  const std::size_t middle = std::min(starts.size() / 2, starts.size() - 2);
  steps.first = steps.at(starts[middle]);
  steps.last = std::max(steps.first + 1, steps.at(starts[middle + 1]));
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

TimeSteps time_steps(const Plan& plan, const Timeline& timeline) {
  TimeSteps steps;
  steps.length = time_step(timeline);
  PG_CHECK(steps.length > 0, "time steps: no forward or backward takes time");
  const std::size_t count = steps.at(timeline.makespan()) + 1;
  steps.alive.resize(count);
  steps.sums.resize(count);
  steps.values.resize(count);
  steps.bytes.resize(count);
  steps.computations.assign(count, std::vector<int>(plan.stages, 0));
  count_alive(timeline, steps);
  count_sendings(plan, timeline, steps);
  for (const Record& record : timeline.records)
    if (uses_weights(record.instruction))
      ++steps.computations[steps.at(record.start)].at(record.instruction.stage);
  find_middle(plan, timeline, steps);
  return steps;
}

}  // namespace plangrad::parallel
