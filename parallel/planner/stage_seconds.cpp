// A message between neighbours is in one of two cases, within a host or between two, and shares the
// links of that case with a number of others that follows from the packing.
// Chapter 06.
#include "parallel/planner/stage_seconds.h"

#include <algorithm>
#include <limits>

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
    : ends(arithmetic_up_to(training)) {
  for (const auto* list : {&costs.forward, &costs.backward, &costs.input_part, &costs.weight_part})
    PG_CHECK(std::ssize(*list) == training.stages(), "costs of ", list->size(),
             " stages, and cuts of ", training.stages());
  for (int stage = 0; stage < training.stages(); ++stage) {
    StageSeconds all{costs.forward[stage], costs.backward[stage], costs.input_part[stage],
                     costs.weight_part[stage]};
    if (all.backward == 0) all.backward = all.input_part + all.weight_part;
    if (all.input_part == 0) all.input_part = all.weight_part = all.backward / 2;
    stages.emplace_back().add(all, 1.0 / examples);
  }
  for (double seconds : costs.step)
    element += seconds * shards / static_cast<double>(training.whole.numel());
}

std::vector<StageSeconds> stage_seconds(const ModelCosts& costs, const MeasuredSeconds& run) {
  const CostSettings& settings = costs.settings;
  std::vector<StageSeconds> all;
  double begin = 0;
  for (const double end : arithmetic_up_to(costs.training)) {
    StageSeconds& seconds = all.emplace_back();
    double first = 0;  // of the run's stage
    for (std::size_t stage = 0; stage < run.ends.size(); first = run.ends[stage++]) {
      const double last = run.ends[stage], shared = std::min(end, last) - std::max(begin, first);
      seconds.add(run.stages[stage], settings.examples * std::max(shared, 0.0) / (last - first));
    }
    begin = end;
    if (!settings.recompute_layers) continue;
    seconds.backward += seconds.forward;
    seconds.input_part += seconds.forward;
  }
  all.resize(costs.stages.size());
  for (std::size_t stage = 0; stage < all.size(); ++stage)
    all[stage].update = run.element * static_cast<double>(costs.stages[stage].bytes.stored);
  return all;
}

namespace {

int host_of(int device, int devices_per_host) {
  return devices_per_host > 0 ? device / devices_per_host : 0;
}

}  // namespace

Topology Replicas::links_of_one(const Topology& machine) const {
  const bool is_side = packing == Packing::stages;
  const int hosted = machine.devices_per_host > 0 ? machine.devices_per_host : width * depth;
  Topology links = machine;
  int most = -1;
  for (int replica = 0; replica < width; ++replica) {
    std::vector<int> devices;
    for (int rank = 0; rank < depth; ++rank)
      devices.push_back(is_side ? rank * width + replica : replica * depth + rank);
    int borders = 0;
    for (int rank = 1; rank < depth; ++rank)
      borders += host_of(devices[rank], hosted) != host_of(devices[rank - 1], hosted);
    if (borders > most) most = borders, links.devices = devices;
  }
  for (Link& link : links.links) {
    if (link.reach == Reach::card && is_side) link.bandwidth /= std::min(width, hosted);
    if (link.reach == Reach::host)
      link.bandwidth /= is_side ? std::min(width, hosted) : std::clamp(hosted / depth, 1, width);
  }
  return links;
}

double Replicas::ring_part(const Topology& machine, double bytes) const {
  if (width == 1) return 0;
  const bool is_side = packing == Packing::stages;
  const int hosted = machine.devices_per_host > 0 ? machine.devices_per_host : width * depth;
  const bool is_straight = hosted % width == 0 || width % hosted == 0;
  const int step = is_side ? 1 : depth;
  const bool crosses =
      is_side ? width > hosted || (!is_straight && width * depth > hosted) : width * depth > hosted;
  const int rings = is_side ? (is_straight ? 1 : 2) : std::min(depth, hosted);  // over a border
  double longest = 0;
  for (const bool is_between : {false, true}) {
    if (is_between ? !crosses : step >= hosted) continue;
    double rate = std::numeric_limits<double>::infinity(), latency = 0;
    for (const Link& link : machine.links) {
      if ((link.reach == Reach::bus || link.reach == Reach::card) != is_between) continue;
      double users = 1;
      if (link.reach == Reach::card) users = rings;
      if (link.reach == Reach::host) users = std::min(hosted, width * depth);
      if (link.one_way && link.reach != Reach::host) users *= 2;
      rate = std::min(rate, link.bandwidth / users);
      latency += link.latency;
    }
    longest = std::max(longest, latency + bytes / width / rate);
  }
  return (width - 1) * longest;
}

}  // namespace plangrad::parallel
