// Layout: names of choices, the numbers of microbatches, and where stages are.
// Not here: which layouts a schedule takes (schedule.cpp).
// Chapter 06.
#include "parallel/schedules/layout.h"

namespace plangrad::parallel {

const std::map<std::string, Setting>& settings() {
  static const std::map<std::string, Setting> all{{"one-device", Setting::one_device},
                                                  {"data", Setting::data},
                                                  {"pipeline", Setting::pipeline},
                                                  {"model", Setting::model},
                                                  {"zero", Setting::zero}};
  return all;
}

const std::map<std::string, Placement>& placements() {
  static const std::map<std::string, Placement> all{{"loop", Placement::loop}, {"v", Placement::v}};
  return all;
}

std::vector<int> Layout::micros(int replica, int step) const {
  std::vector<int> result(microbatches);
  for (int i = 0; i < microbatches; ++i) result[i] = (step * width + replica) * microbatches + i;
  return result;
}

std::vector<int> Layout::micros(int replica) const {
  std::vector<int> result;
  for (int step = first; step < first + steps; ++step)
    for (int micro : micros(replica, step)) result.push_back(micro);
  return result;
}

// [snippet rank_of]
int Layout::rank_of(int stage) const {
  const int ranks = depth(), round = stage / ranks, place = stage % ranks;
  switch (placement.value_or(Placement::straight)) {
    case Placement::straight: return stage * ranks / stages;
    case Placement::v: return round % 2 == 0 ? place : ranks - 1 - place;
    default: return place;
  }
}
// [end snippet]

std::vector<int> Layout::stages_of(int rank) const {
  if (placement == Placement::both_ways) return {rank, stages - 1 - rank};
  std::vector<int> result;
  for (int stage = 0; stage < stages; ++stage)
    if (rank_of(stage) == rank) result.push_back(stage);
  return result;
}

}  // namespace plangrad::parallel
