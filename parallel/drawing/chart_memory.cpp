// Memory over time: one category of all ranks together.
// Not here: measuring (autograd/memory_meter.h).
// Chapters 06 and 08.
#include <algorithm>
#include <map>

#include "parallel/drawing/chart.h"

namespace paragrad::parallel {
MemoryTotal memory_total(std::vector<MemorySample> samples, const std::string& category) {
  std::stable_sort(samples.begin(), samples.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  MemoryTotal total;
  std::map<int, double> live;  // by rank
  double now = 0, area = 0, last = 0;
  for (const MemorySample& sample : samples) {
    if (sample.category != category) continue;
    area += now * (sample.seconds - last);
    last = sample.seconds;
    now += static_cast<double>(sample.bytes) - live[sample.rank];
    live[sample.rank] = static_cast<double>(sample.bytes);
    // Ranks that change at one moment make one level.
    if (!total.levels.empty() && total.levels.back().first == last) total.levels.pop_back();
    total.levels.emplace_back(last, now);
  }
  for (const auto& [at, bytes] : total.levels) total.peak = std::max(total.peak, bytes);
  total.mean = last > 0 ? area / last : now;
  return total;
}

}  // namespace paragrad::parallel
