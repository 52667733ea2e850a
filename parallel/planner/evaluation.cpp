// The stages of a candidate, and simulations of as few microbatches and updates as tell the rest.
// Not here: the plan that is simulated (replicas.cpp), and bounds (bounds.cpp). Chapter 16.
#include "parallel/planner/evaluation.h"

#include <numeric>

#include "parallel/engine/training.h"

namespace plangrad::parallel {

Evaluation::Evaluation(const PlannedModel& model, const Machine& machine,
                       const CostSettings& settings, const std::optional<MeasuredSeconds>& run)
    : model_(model), machine_(machine), settings_(settings), run_(run) {
  check(machine_.topology);
}

void Evaluation::check_links(int devices) const {
  const Topology& links = machine_.topology;
  const auto leaves = [](const Link& link) { return link.reach >= Reach::bus; };
  PG_CHECK(links.devices_per_host == 0 || devices <= links.devices_per_host ||
               std::ranges::any_of(links.links, leaves),
           machine_.name, " has one host of ", counted(links.devices_per_host, "device"),
           ", and no link to another: use --devices of at ",
           "most as many, or a machine with a link \"of a host\"");
}

bool Evaluation::has_packings(const Candidate& candidate) const {
  const int hosted = machine_.topology.devices_per_host;
  return candidate.layout.width > 1 && candidate.depth() > 1 && hosted > 0 &&
         candidate.devices() > hosted;
}

bool Evaluation::has_sums(const Candidate& candidate) {
  const Layout& layout = candidate.layout;
  return layout.width * layout.copies() > 1 ||
         (layout.rank_of(0) != layout.rank_of(layout.stages - 1) &&
          stages(candidate).costs.training.shared.parameters.size() > 0);
}

CostSettings Evaluation::settings_of(const Candidate& candidate) const {
  CostSettings settings = settings_;
  settings.examples = candidate.examples;
  settings.pruned = candidate.pruned;
  settings.recompute_layers = candidate.layout.recompute && candidate.layout.stages == 1;
  return settings;
}

Evaluation::Stages Evaluation::stages(int count, const CostSettings& settings, int ranks) {
  Stages stages{model_costs(model_, count, settings, &known_), {}};
  if (!run_) {
    stages.seconds = stage_seconds(stages.costs, machine_);
  } else {
    CostSettings of_run = settings;
    of_run.examples = run_->examples;
    const ModelCosts costs = model_costs(model_, count, of_run, &known_);
    stages.seconds = stage_seconds(costs, *run_, ranks);
    if (settings.examples != of_run.examples) {
      const auto now = stage_seconds(stages.costs, machine_), then = stage_seconds(costs, machine_);
      for (int stage = 0; stage < stages.costs.training.stages(); ++stage)
        if (then[stage].pass() > 0)
          stages.seconds[stage].scale(now[stage].pass() / then[stage].pass());
    }
  }
  for (StageCosts& stage : stages.costs.stages) stage.work = {};
  return stages;
}

const Evaluation::Stages& Evaluation::stages(const Candidate& candidate) {
  const int count = candidate.layout.stages, ranks = run_ ? candidate.devices() : 1;
  CostSettings settings = settings_of(candidate);
  if (candidate.by_seconds) settings.cuts = cuts(candidate);
  const auto key = std::tuple(count, settings.cuts, candidate.examples, settings.recompute_layers,
                              candidate.pruned, ranks);
  if (const auto found = stages_.find(key); found != stages_.end()) return *found->second;
  return *(stages_[key] = std::make_shared<const Stages>(stages(count, settings, ranks)));
}

std::vector<double> Evaluation::cuts(const Candidate& candidate) {
  Candidate usual = candidate;
  usual.by_seconds = false;
  const std::vector<int>& usual_cuts = stages(usual).costs.training.cuts;
  if (!candidate.by_seconds) return {usual_cuts.begin() + 1, usual_cuts.end() - 1};
  const int count = candidate.layout.stages;
  const auto [place, is_new] =
      cuts_.try_emplace({count, candidate.examples, candidate.pruned, shards(candidate.layout),
                         has_second(candidate.layout)});
  if (!is_new) return place->second;

  const std::vector<double> places = cut_places(model_.layers);
  std::shared_ptr<const Stages>& parts = parts_[{candidate.examples, candidate.pruned}];
  if (!parts) {
    CostSettings settings = settings_of(candidate);
    settings.recompute_layers = false;
    settings.cuts.assign(places.begin() + 1, places.end());
    parts = std::make_shared<const Stages>(stages(static_cast<int>(places.size()), settings));
  }
  std::vector<double> seconds, bytes;
  for (int part = 0; part < parts->costs.training.stages(); ++part) {
    const StageSeconds& each = parts->seconds[part];
    seconds.push_back(each.forward + each.backward - 2 * machine_.host_seconds);
  }
  for (const StageCosts& part : parts->costs.stages) {
    const auto kept = static_cast<double>(part.bytes.kept), sum = sum_bytes(part);
    bytes.push_back(weight_bytes(part) +
                    static_cast<double>(part.bytes.optimizer) / shards(candidate.layout) +
                    (has_second(candidate.layout) ? sum + kept : std::max(sum, kept)));
  }
  for (int sharing : parts->costs.training.shared.stages) bytes[sharing] += bytes.back();
  const auto sum = [](const std::vector<double>& values, int first, int last) {
    return std::accumulate(values.begin() + first, values.begin() + last, 0.0);
  };
  const auto fits = [&](int, int first, int last) {
    return machine_.memory == 0 || sum(bytes, first, last) <= machine_.memory;
  };
  const auto slowest = [&](const std::vector<int>& borders) {
    double most = 0;
    for (int stage = 0; stage < count; ++stage)
      most = std::max(most, sum(seconds, borders[stage], borders[stage + 1]));
    return most;
  };
  std::vector<int> usual_borders;  // in parts
  for (const int layer : usual_cuts)
    usual_borders.push_back(
        static_cast<int>(std::ranges::lower_bound(places, layer) - places.begin()));
  const std::vector<int> found = partition(seconds, count, fits);
  constexpr double gain = 1e-3;
  if (!found.empty() && slowest(found) < (1 - gain) * slowest(usual_borders))
    for (int stage = 1; stage < count; ++stage) place->second.push_back(places[found[stage]]);
  return place->second;
}

std::vector<Evaluation::Length> Evaluation::lengths(const Candidate& candidate, bool all) {
  const int depth = candidate.depth(), window = 8 * depth;
  int micros = candidate.layout.microbatches;
  const int shorter = micros % (2 * depth) + window, longer = shorter + window;
  std::vector<Length> lengths;
  if (!all && micros > shorter + longer) {
    const double more = static_cast<double>(micros - shorter) / window;
    const bool is_steady = traits(candidate).overlaps;  // so that memory does not grow
    lengths = {{shorter, 1, -more, is_steady ? 0 : -more}, {longer, 1, more, is_steady ? 0 : more}};
    micros = shorter;
  }
  if (!traits(candidate).overlaps) {
    lengths.push_back({micros});
    return lengths;
  }
  const int first = std::max(2, 2 * depth / micros + 1), more = (depth + micros - 1) / micros;
  lengths.push_back({micros, first, -1.0 / more, 0});
  lengths.push_back({micros, first + more, 1.0 / more, 1});
  return lengths;
}

/// Plans are kept, up to a number of forwards, for candidates that differ in what does not show in
/// them. Of the threads that need a plan the first makes it, and the others wait.
Evaluation::UnderWay Evaluation::start(const Candidate& candidate, bool whole) {
  constexpr std::int64_t most_forwards = 1 << 20;
  if (forwards_ > most_forwards) {
    simulations_.clear();
    forwards_ = 0;
  }
  const bool is_kept = !whole && find_schedule(candidate.schedule).has_order;
  Layout one = candidate.layout;
  one.recompute = one.recompute && one.stages > 1;
  one.tied = stages(candidate).costs.training.shared.parameters.size() > 0;
  const RanksByStage members = sums(candidate).members;
  const Costs all = this->costs(candidate, whole);
  UnderWay under_way{candidate, whole};
  for (const Length& length : lengths(candidate, whole)) {
    one.microbatches = length.microbatches;
    one.steps = length.steps;
    auto costs = std::make_shared<Costs>(all);
    // A shorter plan hides the same part of a sum that shrinks as the plan's work does.
    if (traits(candidate).by_stage && one.zero < 3 && !whole)
      for (auto* list : {&costs->sum_bytes, &costs->weight_bytes})
        for (std::int64_t& bytes : *list)
          bytes = bytes * one.microbatches / candidate.layout.microbatches;
    const auto make = [=] {
      Plan plan =
          whole ? make_plan(candidate.schedule, one) : replica_plan(candidate, one, members);
      if (!is_kept) plan = in_order(plan, *costs);
      return std::make_shared<const Simulation>(std::move(plan));
    };
    std::shared_future simulation = std::async(std::launch::deferred, make);
    if (is_kept) {
      const auto [known, is_new] =
          simulations_.try_emplace({candidate.schedule, one.stages, one.depth(), one.microbatches,
                                    one.steps, one.zero, one.recompute, one.width > 1, members},
                                   simulation);
      simulation = known->second;
      if (is_new) forwards_ += std::int64_t{one.stages} * one.microbatches * one.steps;
    }
    under_way.runs.push_back(std::async(std::launch::async, [=] {
      return Run{length, costs, simulation.get(), simulation.get()->times(*costs)};
    }));
  }
  return under_way;
}

void Evaluation::add_peaks(Plan plan, const Timeline& timeline, double factor,
                           const UnderWay& under_way, std::vector<Peak>& all) {
  const Candidate& candidate = under_way.candidate;
  const Sums& sums = this->sums(candidate);
  std::vector<int> members;
  for (const std::vector<int>& ranks : sums.ranks)
    members.push_back(candidate.layout.width * static_cast<int>(ranks.size()));
  if (under_way.whole || candidate.layout.width == 1) members = {};  // the plan shows all
  plan.codec = candidate.layout.codec;
  const Sizes sizes = sizes_of(stages(candidate).costs, plan, sums.how, members);
  // Where activations are the most, their bytes grow, if any do.
  const auto found = peaks(plan, timeline, sizes, {std::nullopt, Memory::activations});
  const int ranks = candidate.depth();  // without partners
  all.resize(2 * ranks);
  for (int i = 0; i < 2 * ranks; ++i) {
    const Peak& now = found[i / ranks * plan.ranks() + i % ranks];
    const auto before = std::exchange(all[i], now).level.bytes;
    for (int kind = 0; kind < memory_kinds; ++kind)
      if (i < ranks || kind == static_cast<int>(Memory::activations))
        all[i].level.bytes[kind] = before[kind] + factor * now.level.bytes[kind];
  }
}

Found Evaluation::finish(UnderWay under_way, double most, bool with_parts) {
  const auto& [candidate, whole, results] = under_way;
  Found found{.candidate = candidate, .reduction = sums(candidate).how};
  std::vector<Run> runs;
  for (std::future<Run>& result : under_way.runs) runs.push_back(result.get());
  for (const Run& run : runs) found.simulated += run.length.time * std::ranges::max(run.times.end);
  found.seconds = found.simulated;
  // A few updates may have less than a mean share of what comes in turns.
  if (traits(candidate).overlaps && !whole)
    found.seconds = std::max(found.seconds, bound_with_messages(candidate));
  if (found.seconds > most) return found;
  std::vector<Peak> peaks;
  for (const auto& [length, costs, simulation, times] : runs) {
    if (length.memory == 0 && !with_parts) continue;
    const Plan& plan = simulation->plan();
    const Timeline timeline = simulation->timeline(times, *costs);
    if (length.memory != 0) add_peaks(plan, timeline, length.memory, under_way, peaks);
    if (!with_parts) continue;
    const std::vector<TimeParts> parts = breakdown(plan, timeline).ranks;
    for (int rank = 0; rank < candidate.depth(); ++rank) found.parts.add(parts[rank], length.time);
  }
  found.peak = fullest(peaks);
  found.bytes = found.peak.total();
  return found;
}

}  // namespace plangrad::parallel
