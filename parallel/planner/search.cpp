// A branch of the search is a candidate alone. The cheap bounds of all are computed first; that of
// the one with the least is then made better, until it has no less than another's.
// Chapter 16.
#include "parallel/planner/search.h"

#include <queue>

namespace plangrad::parallel {
namespace {

std::vector<int> divisors(int number, int most) {
  std::vector<int> found;
  for (int each = 1; each <= std::min(number, most); ++each)
    if (number % each == 0) found.push_back(each);
  return found;
}

std::vector<const Schedule*> schedules_of(const Space& space) {
  const auto is_searched = [](const Schedule* each) {
    return !each->cyclic && !each->updates_per_microbatch && each->ranks == pipeline_ranks;
  };
  std::vector<const Schedule*> found;
  for (const std::string& name : space.schedules) {
    found.push_back(&find_schedule(name));
    PG_CHECK(is_searched(found.back()), "--schedule ", name,
             ": only schedules are searched that divide a batch over replicas of a pipeline");
  }
  if (found.empty()) std::ranges::copy_if(schedules(), std::back_inserter(found), is_searched);
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

/// How many stages a rank may hold.
std::vector<int> chunk_counts(const Schedule& schedule, int layers) {
  const bool holds_all = schedule.chunks == 0;
  if (!holds_all && !schedule.has(chunks_field)) return {schedule.chunks};
  std::vector<int> counts;
  for (int count = holds_all ? 1 : 2; count <= layers; count *= 2) counts.push_back(count);
  return counts;
}

/// The candidate with each share that is pruned and each codec, as far as they have an effect.
std::vector<Candidate> with_codecs(Evaluation& evaluation, const Candidate& plain,
                                   const Space& space) {
  std::vector<Candidate> all;
  for (const double pruned : space.pruned)
    for (const CodecSpec& codec : space.codecs)
      for (const CodecSpec& channel : space.channels) {
        Candidate each = plain;
        each.pruned = pruned, each.layout.codec = codec, each.layout.channel = channel;
        if (!codec.is_none() && !evaluation.has_sums(each)) continue;
        if (!channel.is_none() && each.depth() == 1) continue;
        if (is_local(codec) || pruned == 0) all.push_back(each);
      }
  return all;
}

/// The candidates of a schedule at one width, depth and microbatch.
void add_variants(Evaluation& evaluation, const Candidate& plain, std::vector<Candidate>& all) {
  Candidate cut = plain;
  cut.by_seconds = true;
  const bool has_cuts = !evaluation.cuts(cut).empty();
  const int highest = plain.layout.width > 1 ? find_schedule(plain.schedule).highest_zero : 0;
  for (const bool recompute : {false, true})
    for (int zero = 0; zero <= highest; ++zero)
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

/// The candidates of a schedule at one depth: each division of the batch among replicas and
/// microbatches. Without replicas a rank that has the whole model gains nothing by several stages.
void add_batches(Evaluation& evaluation, Candidate each, int replicas, int batch,
                 const Space& space, std::vector<Candidate>& all) {
  const Schedule& schedule = find_schedule(each.schedule);
  Layout& layout = each.layout;
  for (const int width : divisors(batch, replicas)) {
    if (width == 1 && each.depth() == 1 && layout.stages > 1) continue;
    for (const int examples : divisors(batch / width, space.most_examples)) {
      layout.width = width, layout.microbatches = batch / width / examples;
      each.examples = examples;
      if (!has_layout(schedule, layout)) continue;
      for (const Candidate& coded : with_codecs(evaluation, each, space))
        add_variants(evaluation, coded, all);
    }
  }
}

}  // namespace

std::vector<Candidate> candidates(Evaluation& evaluation, int layers, int devices, int batch,
                                  const Space& space) {
  evaluation.check_links(devices);
  std::vector<Candidate> all;
  for (const Schedule* schedule : schedules_of(space)) {
    const int whole = schedule->chunks == 0 ? 1 : devices;  // the most ranks of a replica
    for (const int chunks : chunk_counts(*schedule, layers))
      for (int depth = schedule->chunks == 0 ? 1 : 2; depth <= whole; ++depth) {
        Layout layout = settled(*schedule, {.chunks = chunks});
        layout.stages = depth * chunks / layout.copies();
        if (layout.stages > layers) break;
        add_batches(evaluation, {schedule->name, layout}, devices / depth, batch, space, all);
      }
  }
  return all;
}

SearchResult search(Evaluation& evaluation, std::vector<Candidate> candidates, double memory,
                    int keep, const Progress& progress) {
  SearchResult result;
  result.candidates = candidates.size();
  struct Next {
    double bound;
    std::size_t place;  // among the candidates
    bool has_messages;  // whether the bound knows them
    auto operator<=>(const Next&) const = default;
  };
  std::vector<Next> bounds;
  for (std::size_t place = 0; place < candidates.size(); ++place)
    bounds.push_back({evaluation.bound(candidates[place]), place, false});
  std::priority_queue order(std::greater<>(), std::move(bounds));
  std::vector<Found>& best = result.best;
  std::size_t done = 0;
  constexpr double rounding = 1e-9;  // of a bound that is the time
  // [snippet search]
  while (!order.empty()) {
    const auto [bound, place, has_messages] = order.top();
    const Candidate* candidate = &candidates[place];
    order.pop();
    const double most = std::ssize(best) == keep ? best.back().seconds : Evaluation::endless;
    if (bound > most * (1 + rounding)) break;
    const double least = evaluation.least_bytes(*candidate);
    if (memory > 0 && least > memory && result.nearest && least >= result.nearest->bytes) {
      ++result.refused;
      continue;
    }
    if (!has_messages) {
      order.push({evaluation.bound_with_messages(*candidate), place, true});
      continue;
    }
    if (progress) progress(done++, candidates.size());
    Found found = evaluation.simulated(*candidate, most);
    ++result.simulated;
    if (found.seconds > most) continue;
    if (memory > 0 && found.bytes > memory) {
      ++result.refused;
      if (!result.nearest || found.bytes < result.nearest->bytes) result.nearest = found;
      continue;
    }
    const auto after = std::ranges::upper_bound(best, found.seconds, {}, &Found::seconds);
    best.insert(after, std::move(found));
    if (std::ssize(best) > keep) best.pop_back();
  }
  // [end snippet]
  for (Found& found : best)
    found = evaluation.simulated(found.candidate, Evaluation::endless, true);
  return result;
}

}  // namespace plangrad::parallel
