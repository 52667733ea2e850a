// Sums over a timeline, and the activations that are alive in it. Work is the compute lane, but for
// drops, which take no time. Not here: bytes alive (autograd/device.h).
// Chapters 06 and 08.
#include "parallel/simulation/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace plangrad::parallel {

double Timeline::makespan() const {
  double end = 0;
  for (const Record& record : records) end = std::max(end, record.end);
  return end;
}

double Timeline::bubble() const {
  double busy = 0;
  for (const Record& record : records) {
    bool works = record.lane == Lane::compute && !drops(record.instruction);
    if (works) busy += record.end - record.start;
  }
  double available = ranks * makespan();
  return available > 0 ? 1 - busy / available : 0;  // an empty timeline has no bubble
}

std::int64_t Timeline::bytes() const {
  std::int64_t sum = 0;
  for (const Record& record : records) sum += record.bytes;
  return sum;
}

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

}  // namespace plangrad::parallel
