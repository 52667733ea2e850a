// Simulation of one replica. Bounds and sizes must hold for every schedule, so they read its
// layout, and what its rows say of order.
// Chapter 06.
#include "parallel/planner/evaluation.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "parallel/engine/partition.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {
namespace {

TimeParts& add(TimeParts& sum, const TimeParts& parts, double factor) {
  for (auto part :
       {&TimeParts::compute, &TimeParts::update, &TimeParts::waiting, &TimeParts::point_to_point,
        &TimeParts::collective, &TimeParts::forward, &TimeParts::other})
    sum.*part += factor * parts.*part;
  return sum;
}

/// Bytes of a stage's weights, of a sum of its gradients, and of the optimizer on one of `shards`.
double weight_bytes(const StageCosts& stage, DType dtype) {
  return static_cast<double>(stage.bytes.stored * size_of(dtype));
}
double sum_bytes(const StageCosts& stage, DType dtype) {
  return static_cast<double>(stage.bytes.stored * size_of(gradient_dtype(dtype)));
}
double optimizer_bytes(const StageCosts& stage, int shards) {
  return static_cast<double>(stage.bytes.optimizer) / shards;
}

int shards(const Layout& layout) { return layout.zero > 0 ? layout.width : 1; }

}  // namespace

Evaluation::Evaluation(const PlannedModel& model, const Machine& machine,
                       const CostSettings& settings, const std::optional<MeasuredSeconds>& run)
    : model_(model), machine_(machine), settings_(settings), run_(run) {
  check(machine_.topology);
}

bool Evaluation::has_packings(const Candidate& candidate) const {
  const int hosted = machine_.topology.devices_per_host;
  return candidate.layout.width > 1 && candidate.depth() > 1 && hosted > 0 &&
         candidate.devices() > hosted;
}

CostSettings Evaluation::settings_of(const Candidate& candidate) const {
  CostSettings settings = settings_;
  settings.examples = candidate.examples;
  settings.recompute_layers = candidate.layout.recompute && candidate.layout.stages == 1;
  return settings;
}

Evaluation::Stages Evaluation::stages(int count, const CostSettings& settings) {
  Stages stages{model_costs(model_, count, settings, &known_), {}};
  stages.seconds =
      run_ ? stage_seconds(stages.costs, *run_) : stage_seconds(stages.costs, machine_);
  for (StageCosts& stage : stages.costs.stages) stage.work = {};
  return stages;
}

const Evaluation::Stages& Evaluation::stages(const Candidate& candidate) {
  CostSettings settings = settings_of(candidate);
  const int count = candidate.layout.stages;
  const auto key =
      std::tuple(count, settings.examples, settings.recompute_layers, candidate.by_seconds);
  if (const auto found = stages_.find(key); found != stages_.end()) return found->second;
  if (candidate.by_seconds) settings.cuts = cuts(candidate);
  return stages_.emplace(key, stages(count, settings)).first->second;
}

std::vector<double> Evaluation::cuts(const Candidate& candidate) {
  Candidate usual = candidate;
  usual.by_seconds = false;
  const std::vector<int>& usual_cuts = stages(usual).costs.training.cuts;
  if (!candidate.by_seconds) return {usual_cuts.begin() + 1, usual_cuts.end() - 1};
  const int count = candidate.layout.stages;
  const auto [place, is_new] = cuts_.try_emplace({count, candidate.examples});
  if (!is_new) return place->second;

  const std::vector<double> places = cut_places(model_.layers);
  CostSettings settings = settings_;
  settings.examples = candidate.examples;
  settings.cuts.assign(places.begin() + 1, places.end());
  const Stages parts = stages(static_cast<int>(places.size()), settings);
  std::vector<double> seconds, bytes;
  for (int part = 0; part < parts.costs.training.stages(); ++part) {
    const StageSeconds& each = parts.seconds[part];
    seconds.push_back(each.forward + each.backward - 2 * machine_.host_seconds);
  }
  const DType dtype = settings.dtype;
  for (const StageCosts& part : parts.costs.stages)
    bytes.push_back(weight_bytes(part, dtype) + optimizer_bytes(part, 1) + sum_bytes(part, dtype) +
                    static_cast<double>(part.bytes.kept));
  for (int sharing : parts.costs.training.shared.stages) bytes[sharing] += bytes.back();
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

/// By stage: seconds in which replicas sum up gradients, or give each its part and then gather
/// weights. What the two ranks of a tied stage send each other is in the plan of one replica.
std::vector<double> Evaluation::sum_seconds(const Candidate& candidate) {
  const Replicas replicas{candidate.packing, candidate.layout.width, candidate.depth()};
  std::vector<double> seconds;
  for (const StageCosts& stage : stages(candidate).costs.stages) {
    const double sums = sum_bytes(stage, settings_.dtype);
    const double back = candidate.layout.zero > 0 ? weight_bytes(stage, settings_.dtype) : sums;
    seconds.push_back(replicas.ring_part(machine_.topology, sums) +
                      replicas.ring_part(machine_.topology, back));
  }
  return seconds;
}

double Evaluation::bound(const Candidate& candidate) {
  const std::vector<StageSeconds>& seconds = stages(candidate).seconds;
  const std::vector<double> sums = sum_seconds(candidate);
  const Layout& layout = candidate.layout;
  const int last = layout.stages - 1, passes = layout.microbatches / layout.copies();
  const auto step = [&](int stage) { return sums[stage] + seconds[stage].update / shards(layout); };
  const auto [overlaps, splits] = traits(candidate);
  std::vector<double> before(layout.stages + 1, 0), after(layout.stages + 1, 0);
  for (int stage = 0; stage <= last; ++stage) {
    const StageSeconds& each = seconds[stage];
    before[stage + 1] = before[stage] + each.forward;
    after[stage + 1] = after[stage] + (splits ? each.input_part : each.backward);
  }
  double most = 0;
  for (int rank = 0; rank < candidate.depth(); ++rank) {
    double work = 0, parts = 0, steps = 0;  // parts: W, which may come when all else is done
    int first = last;
    for (int stage : layout.stages_of(rank)) {
      const StageSeconds& each = seconds[stage];
      work += passes * (each.forward + (splits ? each.input_part : each.backward));
      parts += splits ? passes * each.weight_part : 0;
      // Where a backward follows its forward at once, nothing is computed again.
      if (layout.recompute && layout.stages > 1 && stage < last)
        work += std::max(0, passes - 1) * each.forward;
      steps += step(stage);
      first = std::min(first, stage);
    }
    if (overlaps) first = 0;
    most = std::max(most, before[first] + work + parts + steps);
    if (first > 0) most = std::max(most, before[first] + work + after[first] + step(0));
  }
  return most;
}

double Evaluation::bound_with_messages(const Candidate& candidate) {
  const Stages& stages = this->stages(candidate);
  const Layout& layout = candidate.layout;
  const Replicas replicas{candidate.packing, layout.width, candidate.depth()};
  const Topology links = replicas.links_of_one(machine_.topology);
  Traffic traffic(links);
  std::map<std::pair<int, bool>, double> loads;  // by host, and whether out: bytes of a microbatch
  double latency = 0;
  for (int stage = 0; stage < layout.stages; ++stage) {
    const StageSeconds& each = stages.seconds[stage];
    latency += each.forward + (traits(candidate).splits ? each.input_part : each.backward);
    const int from = layout.rank_of(stage), to = layout.rank_of(stage + 1);
    if (stage + 1 == layout.stages || from == to) continue;
    const std::int64_t bytes = stages.costs.stages[stage].bytes.output;
    for (const auto& [sender, receiver] : {std::pair(from, to), std::pair(to, from)}) {
      traffic.start(sender, receiver, bytes, latency, stage);
      latency = traffic.next(endless)->time;
      if (links.host(from) == links.host(to)) continue;
      loads[{links.host(sender), true}] += static_cast<double>(bytes);
      loads[{links.host(receiver), false}] += static_cast<double>(bytes);
    }
  }
  double most = bound(candidate);
  const int micros = layout.microbatches;
  for (const Link& link : links.links)
    for (const auto& [place, bytes] : loads)
      if (link.reach == Reach::card && layout.copies() == 1)
        most =
            std::max(most, micros / link.bandwidth *
                               (bytes + (link.one_way ? loads[{place.first, !place.second}] : 0)));
  const int in_flight = most_in_flight(candidate);
  // Where updates overlap, microbatches of several of them are under way.
  if (in_flight == 0 || (in_flight == micros && traits(candidate).overlaps)) return most;
  return std::max(most, micros * latency / in_flight);
}

/// The most microbatches between forward and backward on the first stage: a row's order says it, or
/// the limit of a row without order. A plan of few microbatches has all that a longer one has, if
/// ranks hold one stage. 0: not known.
int Evaluation::most_in_flight(const Candidate& candidate) {
  const int depth = candidate.depth(), micros = candidate.layout.microbatches;
  Layout small = candidate.layout;
  small.width = 1, small.zero = 0, small.recompute = false;
  small.microbatches = small.chunks > 1 ? micros : 2 * depth + 2;
  if (small.chunks > 1 && micros > 4 * depth) return 0;
  const auto [place, is_new] =
      in_flight_.try_emplace({candidate.schedule, candidate.layout.stages, small.microbatches});
  if (!is_new) return std::min(place->second, micros);
  const Plan plan = make_plan(candidate.schedule, small);
  int sum = 0;
  for (const Row& row : plan.rows) {
    int now = 0, most = 0;
    for (const Instruction& x : row) {
      if (x.stage != 0 || !uses_weights(x) || x.what == Value::weight_part) continue;
      now += x.op == Op::forward ? 1 : -1;
      most = std::max(most, now);
    }
    sum += most;
  }
  if (plan.in_flight > 0) sum = plan.in_flight;
  if (sum >= small.microbatches) sum = most_microbatches;
  place->second = sum;
  return std::min(sum, micros);
}

double Evaluation::least_bytes(const Candidate& candidate) {
  const std::vector<StageCosts>& all = stages(candidate).costs.stages;
  const Layout& layout = candidate.layout;
  const bool drops = layout.recompute && layout.stages > 1;
  const int at_once = most_in_flight(candidate);
  double most = 0;
  for (int rank = 0; rank < candidate.depth(); ++rank) {
    double state = 0, during = 0;
    for (int stage : layout.stages_of(rank)) {
      const StageCosts& each = all[stage];
      const auto kept = static_cast<double>(each.bytes.kept);
      state += weight_bytes(each, settings_.dtype) + optimizer_bytes(each, shards(layout));
      const double sum = sum_bytes(each, settings_.dtype);
      const bool has_second = layout.microbatches > layout.copies();  // which meets a whole sum
      during = std::max(during, has_second ? sum + kept : std::max(sum, kept));
      // A microbatch that was dropped after its forward still has its input.
      if (stage == 0 && layout.copies() == 1)
        during = std::max(during, at_once * (drops ? static_cast<double>(each.bytes.input) : kept));
    }
    most = std::max(most, state + during);
  }
  return most;
}

/// What a schedule does in a small plan.
const Evaluation::Traits& Evaluation::traits(const Candidate& candidate) {
  const auto [place, is_new] = traits_.try_emplace(candidate.schedule);
  Traits& traits = place->second;
  if (!is_new || candidate.depth() == 1) return traits;
  Layout small = candidate.layout;
  small.width = 1, small.zero = 0, small.recompute = false;
  small.stages = 4 * small.chunks / small.copies();
  small.microbatches = 8;
  const auto seconds = [&](int steps) {
    small.steps = steps;
    const Plan plan = make_plan(candidate.schedule, small);
    for (const Instruction& x : plan.rows[0]) traits.splits |= x.what == Value::input_part;
    return simulate_unverified(plan, Costs()).makespan();
  };
  traits.overlaps = seconds(3) - seconds(2) < (1 - 1e-9) * seconds(1);
  return traits;
}

Costs Evaluation::costs(const Candidate& candidate) {
  const Stages& stages = this->stages(candidate);
  const std::vector<double> sums = sum_seconds(candidate);
  const Layout& layout = candidate.layout;
  Costs costs{
      .forward = {}, .backward = {}, .step = {}, .activation_bytes = {}, .weight_bytes = {}};
  for (std::size_t stage = 0; stage < stages.seconds.size(); ++stage) {
    const StageSeconds& each = stages.seconds[stage];
    const StageCosts& cost = stages.costs.stages[stage];
    costs.step.push_back(sums[stage] + each.update / shards(layout));
    costs.weight_bytes.push_back(std::llround(weight_bytes(cost, settings_.dtype)));
    costs.sum_bytes.push_back(std::llround(sum_bytes(cost, settings_.dtype)));
    if (static_cast<int>(stage) == layout.stages) break;
    costs.forward.push_back(each.forward);
    costs.backward.push_back(each.backward);
    costs.input_part.push_back(each.input_part);
    costs.weight_part.push_back(each.weight_part);
    costs.activation_bytes.push_back(cost.bytes.output);
  }
  costs.sums.how = AllReduce::ring;
  const Replicas replicas{candidate.packing, layout.width, candidate.depth()};
  Machine machine = machine_;
  machine.topology = replicas.links_of_one(machine_.topology);
  // The sum of a tied table would be thousands of messages, which take as long if they are joined.
  constexpr int most_pieces = 16;
  const double most_bytes = static_cast<double>(std::ranges::max(costs.sum_bytes));
  machine.piece = std::max(machine.piece, most_bytes / most_pieces);
  costs.devices = machine.topology.devices;
  costs.machine = std::make_shared<const Machine>(machine);
  return one_by_one(costs);
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
  const int first = std::max(2, 4 * depth / micros + 1), more = (2 * depth + micros - 1) / micros;
  lengths.push_back({micros, first, -1.0 / more, 0});
  lengths.push_back({micros, first + more, 1.0 / more, 1});
  return lengths;
}

Evaluation::Run Evaluation::run(const Candidate& candidate, const Length& length,
                                const Costs& costs) {
  Layout one = candidate.layout;
  one.width = 1, one.zero = 0;
  one.microbatches = length.microbatches, one.steps = length.steps;
  one.recompute = one.recompute && one.stages > 1;
  one.tied = stages(candidate).costs.training.shared.parameters.size() > 0;
  Plan plan = in_order(make_plan(candidate.schedule, one), costs);
  Timeline timeline = simulate_unverified(plan, costs);
  return {length, std::move(plan), std::move(timeline)};
}

void Evaluation::add_peaks(const Run& run, const Candidate& candidate, std::vector<Peak>& all) {
  if (run.length.memory == 0) return;
  Sizes sizes = sizes_of(stages(candidate).costs, run.plan, AllReduce::ring);
  for (double& bytes : sizes.optimizer) bytes /= shards(candidate.layout);
  const std::vector<Peak> found = peaks(run.plan, run.timeline, sizes);
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    auto bytes = all[rank].level.bytes;
    for (int kind = 0; kind < memory_kinds; ++kind)
      bytes[kind] += run.length.memory * found[rank].level.bytes[kind];
    all[rank] = found[rank];
    all[rank].level.bytes = bytes;
  }
}

TimeParts Evaluation::parts_of(const Run& run, const Candidate& candidate) {
  TimeParts parts = breakdown(run.plan, run.timeline).all();
  const std::vector<double> sums = sum_seconds(candidate);
  for (const Row& row : run.plan.rows)
    for (const Instruction& x : row)
      if (makes_version(x)) {
        parts.update -= sums[x.stage];
        parts.collective += sums[x.stage];
      }
  return parts;
}

/// Bytes while a rank of ZeRO saves a checkpoint: it gathers the optimizer's state of a stage.
static double saving_bytes(const std::vector<StageCosts>& stages, const Layout& layout, int rank,
                           DType dtype) {
  double state = 0, gathered = 0;
  for (int stage : layout.stages_of(rank)) {
    state += weight_bytes(stages[stage], dtype) + optimizer_bytes(stages[stage], layout.width);
    gathered = std::max(gathered, optimizer_bytes(stages[stage], 1));
  }
  return state + gathered;
}

Found Evaluation::combined(const Candidate& candidate, const std::vector<Length>& lengths,
                           double most, bool with_parts) {
  Found found{.candidate = candidate, .bound = bound(candidate)};
  const Costs costs = this->costs(candidate);
  std::vector<Run> runs;
  for (const Length& length : lengths) {
    runs.push_back(run(candidate, length, costs));
    found.seconds += length.time * runs.back().timeline.makespan();
  }
  if (found.seconds > most) return found;
  std::vector<Peak> peaks(candidate.depth());
  for (const Run& each : runs) {
    add_peaks(each, candidate, peaks);
    if (with_parts) add(found.parts, parts_of(each, candidate), each.length.time);
  }
  if (candidate.layout.zero > 0)
    for (Peak& peak : peaks)
      peak.saving = saving_bytes(stages(candidate).costs.stages, candidate.layout, peak.rank,
                                 settings_.dtype);
  found.peak = fullest(peaks);
  found.bytes = found.peak.total();
  return found;
}

Found Evaluation::simulated(const Candidate& candidate, double most, bool with_parts) {
  return combined(candidate, lengths(candidate, false), most, with_parts);
}

Found Evaluation::simulated_in_full(const Candidate& candidate) {
  return combined(candidate, lengths(candidate, true), endless, false);
}

}  // namespace plangrad::parallel
