// How many activations are alive at each moment. Moments that differ by rounding alone are one: a
// billionth of the whole time apart. Not here: bytes (memory_meter), time steps (time_steps.cpp).
// Chapter 08.
#include <cmath>
#include <map>
#include <tuple>

#include "parallel/simulation/time_steps.h"

namespace paragrad::parallel {
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

}  // namespace paragrad::parallel
