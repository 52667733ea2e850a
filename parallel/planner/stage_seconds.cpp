// A message between neighbours is in one of two cases, within a host or between two, and shares the
// links of that case with a number of others that follows from the packing. Chapter 16.
#include "parallel/planner/stage_seconds.h"

#include <ranges>

namespace plangrad::parallel {

std::vector<StageSeconds> stage_seconds(const ModelCosts& costs, const Machine& machine) {
  std::vector<StageSeconds> all;
  const DType dtype = costs.settings.dtype;
  for (const StageCosts& stage : costs.stages) {
    StageSeconds& seconds = all.emplace_back();
    const auto elements = static_cast<double>(stage.bytes.stored);
    const double bytes = 2.0 * static_cast<double>(stage.bytes.optimizer) +
                         elements * (size_of(gradient_dtype(dtype)) + size_of(dtype));
    seconds.update = parallel::seconds(machine, {{"update", {.dtype = dtype, .bytes = bytes}}});
    if (static_cast<int>(all.size()) > costs.training.stages()) continue;
    const double host = machine.host_seconds;
    seconds.forward = parallel::seconds(machine, stage.work.forward) + host;
    seconds.backward = parallel::seconds(machine, stage.work.backward) + host;
    seconds.input_part = parallel::seconds(machine, stage.work.input_part) + host / 2;
    seconds.weight_part = parallel::seconds(machine, stage.work.weight_part) + host / 2;
  }
  return all;
}

/// The arithmetic of all layers up to the end of each stage; a layer without any still counts.
static std::vector<double> arithmetic_up_to(const Training& training) {
  std::vector<double> ends;
  double sum = 0;
  for (int stage = 0; stage < training.stages(); ++stage) {
    for (int layer = training.cuts[stage]; layer < training.cuts[stage + 1]; ++layer)
      sum += training.model[layer].flops + 1;
    ends.push_back(sum);
  }
  return ends;
}

MeasuredSeconds::MeasuredSeconds(const Training& training, const Costs& costs, int examples,
                                 int shards)
    : examples(examples), ends(arithmetic_up_to(training)) {
  for (const auto* list : {&costs.forward, &costs.backward, &costs.input_part, &costs.weight_part})
    PG_CHECK(std::ssize(*list) == training.stages(), "costs of ", counted(list->size(), "stage"),
             ", and cuts of ", training.stages());
  for (int stage = 0; stage < training.stages(); ++stage) {
    StageSeconds all{costs.forward[stage], costs.backward[stage], costs.input_part[stage],
                     costs.weight_part[stage]};
    if (all.backward == 0) all.backward = all.input_part + all.weight_part;
    if (training.recompute_layers) {
      PG_CHECK(all.backward > all.forward, "costs of a stage that computes its layers again: a ",
               "backward of ", all.backward, " s, which has a forward of ", all.forward,
               " s in it; use a run without --recompute");
      all.backward -= all.forward;
      all.input_part = std::max(all.input_part - all.forward, 0.0);
    }
    if (all.input_part == 0) all.input_part = all.weight_part = all.backward / 2;
    stages.push_back(all);
  }
  for (double seconds : costs.step)
    element += seconds * shards / static_cast<double>(training.whole.numel());
}

std::vector<StageSeconds> stage_seconds(const ModelCosts& costs, const MeasuredSeconds& run,
                                        int ranks) {
  const CostSettings& settings = costs.settings;
  const int own = std::clamp(run.cores / ranks, 1, run.most_threads);
  const double slower = run.threads > 0 ? 1.0 * run.threads / own : 1;
  const double element = slower * run.element;
  std::vector<StageSeconds> all;
  double begin = 0;
  for (const double end : arithmetic_up_to(costs.training)) {
    StageSeconds& seconds = all.emplace_back();
    double first = 0;  // of the run's stage
    for (std::size_t stage = 0; stage < run.ends.size(); first = run.ends[stage++]) {
      const double last = run.ends[stage], shared = std::min(end, last) - std::max(begin, first);
      seconds.add(run.stages[stage], slower * std::max(shared, 0.0) / (last - first));
    }
    begin = end;
    if (!settings.recompute_layers) continue;
    seconds.backward += seconds.forward;
    seconds.input_part += seconds.forward;
  }
  all.resize(costs.stages.size());
  for (std::size_t stage = 0; stage < all.size(); ++stage)
    all[stage].update = element * static_cast<double>(costs.stages[stage].bytes.stored);
  return all;
}

Costs costs_of_stages(const ModelCosts& model, const std::vector<StageSeconds>& seconds,
                      const CodecSpec& codec, const CodecSpec& channel, int shards) {
  Costs costs{
      .forward = {}, .backward = {}, .step = {}, .activation_bytes = {}, .weight_bytes = {}};
  const std::int64_t element = size_of(model.settings.dtype);
  for (std::size_t stage = 0; stage < seconds.size(); ++stage) {
    const StageSeconds& each = seconds[stage];
    const StageCosts& cost = model.stages[stage];
    costs.step.push_back(each.update / shards);
    costs.weight_bytes.push_back(element * cost.bytes.stored);
    costs.sum_bytes.push_back(sent_sum_bytes(cost, codec));
    if (static_cast<int>(stage) == model.training.stages()) break;  // the tied one only has these
    costs.forward.push_back(each.forward);
    costs.backward.push_back(each.backward);
    costs.input_part.push_back(each.input_part);
    costs.weight_part.push_back(each.weight_part);
    costs.activation_bytes.push_back(cost.bytes.output);
  }
  encode_activations(costs, channel, static_cast<int>(element));
  return costs;
}

std::vector<int> Replicas::devices(const std::vector<int>& ranks) const {
  std::vector<int> all;
  for (int replica = 0; replica < width; ++replica)
    for (int rank : ranks)
      all.push_back(packing == Packing::stages ? rank * width + replica : replica * depth + rank);
  return all;
}

Topology Replicas::links_of_one(const Topology& machine) const {
  const bool is_side = packing == Packing::stages;
  const int hosted = machine.devices_per_host > 0 ? machine.devices_per_host : width * depth;
  const auto ranks = std::views::iota(0, depth);
  const std::vector<int> all = devices({ranks.begin(), ranks.end()});
  Topology links = machine;
  int most = -1;
  for (int replica = 0; replica < width; ++replica) {
    const auto first = all.begin() + replica * depth;
    int borders = 0;
    for (int rank = 1; rank < depth; ++rank)
      borders += first[rank] / hosted != first[rank - 1] / hosted;
    if (borders > most) most = borders, links.devices = {first, first + depth};
  }
  for (Link& link : links.links) {
    if (link.reach == Reach::card && is_side) link.bandwidth /= std::min(width, hosted);
    if (link.reach == Reach::host)
      link.bandwidth /= is_side ? std::min(width, hosted) : std::clamp(hosted / depth, 1, width);
  }
  return links;
}

namespace {

/// What the busiest link of a round carries, in seconds for a byte of the sum.
class Loads {
 public:
  explicit Loads(const Topology& machine) : machine_(machine) {}

  /// A message of this share of the sum. Those of one pair come one after another.
  void add(int from, int to, double share) {
    double latency = 0;
    int counted = -1;
    pair_ = from == last_.first && to == last_.second ? pair_ + share : share;
    last_ = {from, to};
    machine_.for_each_link(from, to, [&](const Link& link, const LinkUse& use) {
      const std::size_t index = 2 * (use.owner * machine_.links.size() + use.place) + use.way;
      if (index >= loads_.size()) loads_.resize(index + 1, 0);
      double& load = loads_[index];
      load += share;
      longest_ = std::max(longest_, (link.reach == Reach::pair ? pair_ : load) / link.bandwidth);
      if (std::exchange(counted, use.place) != use.place) latency += link.latency;
    });
    latency_ = std::max(latency_, latency);
  }
  double longest() const { return longest_; }
  double latency() const { return latency_; }

 private:
  const Topology& machine_;
  std::vector<double> loads_;  // by owner, place and way
  std::pair<int, int> last_ = {-1, -1};
  double pair_ = 0, longest_ = 0, latency_ = 0;
};

}  // namespace

SumSeconds sum_seconds(const Topology& machine, const std::vector<int>& group, AllReduce how,
                       ListMaker list) {
  SumSeconds all;
  const int members = static_cast<int>(group.size());
  if (members == 1) return all;
  Summing summing{how};
  for (int rank : group) summing.hosts.push_back(machine.host(rank));
  std::vector<Loads> rounds;
  Collective own = list(summing, 0, members);
  const bool in_ring = how == AllReduce::ring;  // members and rounds do alike
  const std::size_t alike = in_ring ? own.rounds.size() : 1;
  for (int member = 0; member < members; ++member) {
    if (member > 0 && !in_ring) own = list(summing, member, members);
    const int shift = in_ring ? member : 0;
    for (std::size_t round = 0; round < own.rounds.size() / alike; ++round) {
      if (round == rounds.size()) rounds.emplace_back(machine);
      for (const Exchange& each : own.rounds[round])
        if (each.action == Exchange::Action::send)
          rounds[round].add(group[member], group[(each.peer + shift) % members], 1.0 / own.chunks);
    }
  }
  for (const Loads& round : rounds) {
    all.per_byte += static_cast<double>(alike) * round.longest();
    all.latency += static_cast<double>(alike) * round.latency();
  }
  return all;
}

}  // namespace plangrad::parallel
