// Sums over a timeline. Work is the compute lane, but for drops, which take no time.
// Not here: where idle time goes (simulation/breakdown.h).
// Chapter 06.
#include "parallel/plan/timeline.h"

#include <algorithm>
#include <map>

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

std::vector<int> other_ends(const Timeline& timeline) {
  struct Channel {
    std::vector<int> sends, receives;
  };
  std::map<std::pair<int, int>, Channel> channels;  // by sender and receiver
  for (std::size_t i = 0; i < timeline.records.size(); ++i) {
    const Record& record = timeline.records[i];
    const Instruction& x = record.instruction;
    if (sends(x)) channels[{record.rank, x.peer}].sends.push_back(static_cast<int>(i));
    if (receives(x)) channels[{x.peer, record.rank}].receives.push_back(static_cast<int>(i));
  }
  std::vector<int> others(timeline.records.size(), -1);
  for (const auto& [ends, channel] : channels)
    for (std::size_t k = 0; k < std::min(channel.sends.size(), channel.receives.size()); ++k) {
      others[channel.sends[k]] = channel.receives[k];
      others[channel.receives[k]] = channel.sends[k];
    }
  return others;
}

}  // namespace plangrad::parallel
