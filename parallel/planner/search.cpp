// A branch of the search is a candidate alone: bounds are so cheap that all are computed first.
// Chapter 06.
#include "parallel/planner/search.h"

#include <algorithm>

namespace plangrad::parallel {
namespace {

std::vector<int> divisors(int number, int most) {
  std::vector<int> found;
  for (int each = 1; each <= std::min(number, most); ++each)
    if (number % each == 0) found.push_back(each);
  return found;
}

std::vector<const Schedule*> schedules_of(const Space& space) {
  std::vector<const Schedule*> found;
  for (const std::string& name : space.schedules) found.push_back(&find_schedule(name));
  if (found.empty())
    std::ranges::copy_if(schedules(), std::back_inserter(found), [](const Schedule* each) {
      return !each->cyclic && !each->updates_per_microbatch && each->ranks == pipeline_ranks;
    });
  return found;
}

/// Whether the schedule has this layout.
bool has_layout(const Schedule& schedule, const Layout& layout) {
  try {
    check_layout(schedule, layout);
    return true;
  } catch (const autograd::Error&) {
    return false;
  }
}

/// The candidates of a schedule at one width, depth and microbatch.
void add_variants(Evaluation& evaluation, const Candidate& plain, std::vector<Candidate>& all) {
  Candidate cut = plain;
  cut.by_seconds = true;
  const bool has_cuts = !evaluation.cuts(cut).empty();
  for (const bool recompute : {false, true})
    for (int zero = 0; zero <= (plain.layout.width > 1 ? 1 : 0); ++zero)
      for (const Packing packing : {Packing::stages, Packing::pipelines})
        for (const bool by_seconds : {false, true}) {
          if (packing == Packing::pipelines && !evaluation.has_packings(plain)) continue;
          if (by_seconds && !has_cuts) continue;
          Candidate& each = all.emplace_back(plain);
          each.layout.recompute = recompute;
          each.layout.zero = zero;
          each.packing = packing;
          each.by_seconds = by_seconds;
        }
}

}  // namespace

std::vector<Candidate> candidates(Evaluation& evaluation, int layers, int devices, int batch,
                                  const Space& space) {
  std::vector<Candidate> all;
  for (const Schedule* schedule : schedules_of(space)) {
    const Layout usual = settled(*schedule, {});
    const int whole = schedule->chunks == 0 ? 1 : devices;  // the most ranks of a replica
    for (int depth = schedule->chunks == 0 ? 1 : 2; depth <= whole; ++depth) {
      Layout layout = usual;
      layout.stages = depth * usual.chunks / usual.copies();
      if (layout.stages > layers) break;
      for (const int width : divisors(batch, devices / depth))
        for (const int examples : divisors(batch / width, space.most_examples)) {
          layout.width = width;
          layout.microbatches = batch / width / examples;
          if (has_layout(*schedule, layout))
            add_variants(evaluation, {schedule->name, layout, examples}, all);
        }
    }
  }
  return all;
}

SearchResult search(Evaluation& evaluation, std::vector<Candidate> candidates, double memory,
                    int keep, const Progress& progress) {
  SearchResult result;
  result.candidates = candidates.size();
  std::vector<std::pair<double, const Candidate*>> order;
  for (const Candidate& candidate : candidates)
    order.emplace_back(evaluation.bound(candidate), &candidate);
  std::ranges::stable_sort(order, {}, &std::pair<double, const Candidate*>::first);
  std::vector<Found>& best = result.best;
  std::size_t done = 0;
  for (const auto& [bound, candidate] : order) {
    const double most = std::ssize(best) == keep ? best.back().seconds : Evaluation::endless;
    if (bound > most) break;
    if (progress) progress(done++, order.size());
    const double least = evaluation.least_bytes(*candidate);
    if (memory > 0 && least > memory && result.nearest && least >= result.nearest->bytes) {
      ++result.refused;
      continue;
    }
    if (evaluation.bound_with_messages(*candidate) > most) continue;
    Found found = evaluation.simulated(*candidate, most);
    ++result.simulated;
    if (found.seconds > most) continue;
    if (memory > 0 && found.bytes > memory) {
      ++result.refused;
      if (!result.nearest || found.bytes < result.nearest->bytes) result.nearest = found;
      continue;
    }
    const auto place = std::ranges::upper_bound(best, found.seconds, {}, &Found::seconds);
    best.insert(place, std::move(found));
    if (std::ssize(best) > keep) best.pop_back();
  }
  for (Found& found : best)
    found = evaluation.simulated(found.candidate, Evaluation::endless, true);
  return result;
}

}  // namespace plangrad::parallel
