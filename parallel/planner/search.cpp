// A branch of the search is a candidate alone. The cheap bounds of all are computed first; that of
// the one with the least is then made better, until it has no less than another's. Chapter 16.
#include "parallel/planner/search.h"

#include <queue>
#include <thread>

#include "autograd/cpu/cpu_backend.h"

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
  const int highest = plain.layout.width > 1 ? find_schedule(plain.schedule).highest_zero : 0;
  for (const bool recompute : {false, true})
    for (int zero = 0; zero <= highest; ++zero)
      for (const Packing packing : {Packing::stages, Packing::pipelines})
        for (const bool by_seconds : {false, true}) {
          if (packing == Packing::pipelines && !evaluation.has_packings(plain)) continue;
          Candidate each = plain;
          each.layout.recompute = recompute;
          each.layout.zero = zero;
          each.packing = packing;
          each.by_seconds = by_seconds;
          if (!by_seconds || !evaluation.cuts(each).empty()) all.push_back(each);
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
        Layout layout = with_defaults(*schedule, {.chunks = chunks});
        layout.stages = depth * chunks / layout.copies();
        if (layout.stages > layers) break;
        add_batches(evaluation, {schedule->name, layout}, devices / depth, batch, space, all);
      }
  }
  return all;
}

namespace {

const std::size_t processors = std::max(1u, std::thread::hardware_concurrency());

/// Looks at candidates in the order of their bounds. While the result of one is awaited, threads
/// simulate those after it, as many as there are processors; what is found depends on none of that.
class Search {
 public:
  Search(const Evaluation& evaluation, const std::vector<Candidate>& candidates, double memory,
         int keep)
      : evaluations_(processors, evaluation),
        candidates_(candidates),
        memory_(memory),
        keep_(keep) {
    result_.candidates = candidates.size();
    std::vector<Next> bounds(candidates.size());
    std::vector<std::future<void>> parts;
    const int threads = autograd::compute_threads();  // whose scratch counts
    for (Evaluation& own : evaluations_)
      parts.push_back(std::async(std::launch::async, [&, threads] {
        autograd::set_compute_threads(threads);
        for (std::size_t place = 0; place < candidates.size(); ++place)
          if (&evaluation_of(candidates[place]) == &own)
            bounds[place] = {own.bound(candidates[place]), place, false};
      }));
    for (std::future<void>& part : parts) part.get();
    order_ = decltype(order_)(std::greater<>(), std::move(bounds));
  }

  // [snippet search]
  SearchResult run(const Progress& progress) {
    std::size_t done = 0;
    for (start_ahead(); !ahead_.empty(); start_ahead()) {
      Started next = std::move(ahead_.front());
      ahead_.pop_front();
      if (next.bound > most() * rounding) break;
      if (is_hopeless(next.bound, next.least_bytes)) {
        ++result_.refused;
        continue;
      }
      if (progress) progress(done++, candidates_.size());
      Evaluation& evaluation = evaluation_of(next.simulation->candidate);
      add(evaluation.finish(std::move(*next.simulation), most()));
    }
    for (const Found& each : unfit_)
      if (each.seconds <= most() && (!result_.nearest || each.bytes < result_.nearest->bytes))
        result_.nearest = each;
    for (Found& found : result_.best)
      found = evaluation_of(found.candidate).simulated(found.candidate, Evaluation::endless, true);
    return std::move(result_);
  }
  // [end snippet]

 private:
  struct Next {
    double bound;
    std::size_t place;  // among the candidates
    bool has_messages;  // whether the bound knows them
    auto operator<=>(const Next&) const = default;
  };
  struct Started {
    double bound, least_bytes;
    std::optional<Evaluation::UnderWay> simulation;  // none: it would not fit
  };

  static constexpr double rounding = 1 + 1e-9;  // of a bound that is the time

  Evaluation& evaluation_of(const Candidate& candidate) {
    return evaluations_[candidate.depth() % evaluations_.size()];
  }

  /// The seconds that a candidate may take to be among the best.
  double most() const {
    const std::vector<Found>& best = result_.best;
    return std::ssize(best) == keep_ ? best.back().seconds : Evaluation::endless;
  }
  /// Whether a plan does not fit, and another that does not is as fast and needs no more.
  bool is_hopeless(double bound, double least_bytes) const {
    const auto is_better = [&](const Found& each) {
      return each.seconds <= bound && each.bytes <= least_bytes;
    };
    return memory_ > 0 && least_bytes > memory_ && std::ranges::any_of(unfit_, is_better);
  }

  void start_ahead() {
    while (ahead_.size() < processors && !order_.empty() &&
           order_.top().bound <= most() * rounding) {
      const auto [bound, place, has_messages] = order_.top();
      const Candidate& candidate = candidates_[place];
      Evaluation& evaluation = evaluation_of(candidate);
      order_.pop();
      if (!has_messages) {
        order_.push({evaluation.bound_with_messages(candidate), place, true});
        continue;
      }
      ahead_.push_back({bound, evaluation.least_bytes(candidate), {}});
      if (!is_hopeless(bound, ahead_.back().least_bytes))
        ahead_.back().simulation = evaluation.start(candidate);
    }
  }

  void add(Found found) {
    ++result_.simulated;
    if (found.seconds > most()) return;
    if (memory_ > 0 && found.bytes > memory_) {
      ++result_.refused;
      unfit_.push_back(std::move(found));
      return;
    }
    std::vector<Found>& best = result_.best;
    const auto after = std::ranges::upper_bound(best, found.seconds, {}, &Found::seconds);
    best.insert(after, std::move(found));
    if (std::ssize(best) > keep_) best.pop_back();
  }

  std::vector<Evaluation> evaluations_;  // each evaluates some depths, which share what it knows
  const std::vector<Candidate>& candidates_;
  const double memory_;
  const int keep_;
  SearchResult result_;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> order_;
  std::deque<Started> ahead_;  // as many of the next ones as are simulated
  std::vector<Found> unfit_;   // those that need more memory
};

}  // namespace

SearchResult search(Evaluation& evaluation, std::vector<Candidate> candidates, double memory,
                    int keep, const Progress& progress) {
  return Search(evaluation, candidates, memory, keep).run(progress);
}

}  // namespace plangrad::parallel
