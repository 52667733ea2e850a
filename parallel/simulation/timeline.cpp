// Sums over a timeline. What counts as work is the compute lane, but for drops, which take no time.
// Not here: pictures (draw).
// Chapter 06.
#include "parallel/simulation/timeline.h"

#include <algorithm>

namespace paragrad::parallel {

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
  return available > 0 ? 1 - busy / available : 0;  // nothing ran, so nothing stood still
}

std::int64_t Timeline::bytes() const {
  std::int64_t sum = 0;
  for (const Record& record : records) sum += record.bytes;
  return sum;
}

}  // namespace paragrad::parallel
