// One replica of a candidate that stands for all: its plan, its links, and sums over the others.
// Not here: bounds (bounds.cpp), and how many microbatches are simulated (evaluation.cpp).
// Chapters 04 and 16.
#include <ranges>

#include "parallel/planner/evaluation.h"

namespace plangrad::parallel {

/// The reductions that a search tries, in the order of the register.
static std::vector<AllReduce> reductions_tried() {
  std::vector<AllReduce> tried;
  for (const auto& [name, how] : reductions())
    if (entry_of(how).is_searched) tried.push_back(how);
  std::ranges::sort(tried);
  return tried;
}

/// The ranks of a replica that have each stage, and the tied one.
static RanksByStage ranks_by_stage(const Layout& layout, bool tied) {
  RanksByStage all(layout.stages);
  for (int rank = 0; rank < layout.depth(); ++rank)
    for (int stage : layout.stages_of(rank)) all[stage].push_back(rank);
  if (!tied) return all;
  std::set<int> ends(all.front().begin(), all.front().end());
  ends.insert(all.back().begin(), all.back().end());
  all.emplace_back(ends.begin(), ends.end());
  return all;
}

/// The simulated ranks that add up each stage: partners join ranks of a replica that are on one
/// host. If these are on several, they load the hosts' cards as all replicas' ranks do.
static RanksByStage with_partners(RanksByStage ranks, const Topology& links, int depth) {
  for (std::vector<int>& own : ranks) {
    const auto is_near = [&](int rank) { return links.host(rank) == links.host(own[0]); };
    if (!std::ranges::all_of(own, is_near)) continue;
    for (std::size_t i = 0, count = own.size(); i < count; ++i) own.push_back(own[i] + depth);
  }
  return ranks;
}

/// A run has one reduction for all stages: of those that it can have, the one that is the fastest
/// for the stage that takes the longest, and for the tied one behind it.
Evaluation::Sums Evaluation::fastest_sums(const Candidate& candidate) {
  const std::vector<StageCosts>& all = stages(candidate).costs.stages;
  const Layout& layout = candidate.layout;
  const CodecSpec& codec = layout.codec;
  const bool is_tied = std::ssize(all) > layout.stages, in_parts = layout.zero > 0;
  const auto ranks = ranks_by_stage(layout, is_tied);
  const Topology links = replicas_of(candidate).links_of_one(machine_.topology);
  const auto members = layout.width > 1 ? with_partners(ranks, links, candidate.depth()) : ranks;
  Sums best;
  double least = endless;
  for (const AllReduce how : reductions_tried()) {
    if (in_parts && !entry_of(how).has_parts()) continue;
    Sums sums{how, {}, {}, ranks, members};
    double longest = 0, tied = 0;
    for (std::size_t stage = 0; stage < all.size(); ++stage) {
      const GroupSeconds& group = group_seconds(candidate, ranks[stage]);
      const auto seconds = [&](ListMaker list, double bytes, int messages = 1) {
        return messages * group.at({how, list}).of(bytes / messages);
      };
      const auto bytes = static_cast<double>(sent_sum_bytes(all[stage], codec));
      const bool scatters = in_parts && is_local(codec);  // factors are whole on all ranks
      sums.reduce.push_back(
          seconds(scatters ? reduce_scatter : all_reduce, bytes, codec.kind().sums));
      sums.gather.push_back(in_parts ? seconds(all_gather, weight_bytes(all[stage])) : 0);
      double& most = static_cast<int>(stage) == layout.stages ? tied : longest;
      most = std::max(most, sums.reduce.back() + sums.gather.back());
    }
    if (longest + tied < least) least = longest + tied, best = sums;
  }
  return best;
}

const Evaluation::Sums& Evaluation::sums(const Candidate& candidate) {
  const Layout& layout = candidate.layout;
  const auto [place, is_new] =
      sums_.try_emplace({layout.stages, candidate.by_seconds ? candidate.examples : 0, layout.width,
                         candidate.depth(), candidate.packing, layout.zero > 0, layout.placement,
                         candidate.pruned, print(layout.codec)});
  if (is_new) place->second = fastest_sums(candidate);
  return place->second;
}

/// How long sums and gathers take of all replicas' ranks that have a stage.
const Evaluation::GroupSeconds& Evaluation::group_seconds(const Candidate& candidate,
                                                          const std::vector<int>& ranks) {
  const std::vector<int> devices = replicas_of(candidate).devices(ranks);
  std::vector<int> hosts;
  std::map<int, int> numbers;  // hosts are alike
  for (int device : devices)
    hosts.push_back(
        numbers.try_emplace(machine_.topology.host(device), std::ssize(numbers)).first->second);
  const auto [place, is_new] = group_seconds_.try_emplace(std::move(hosts));
  if (!is_new) return place->second;
  for (const AllReduce how : reductions_tried())
    for (const ListMaker list : {all_reduce, reduce_scatter, all_gather})
      if (list == all_reduce || entry_of(how).has_parts())
        place->second[{how, list}] = sum_seconds(machine_.topology, devices, how, list);
  return place->second;
}

Costs Evaluation::costs(const Candidate& candidate, bool whole) {
  const Stages& stages = this->stages(candidate);
  const Layout& layout = candidate.layout;
  Costs costs =
      costs_of_stages(stages.costs, stages.seconds, layout.codec, layout.channel, shards(layout));
  const Replicas replicas = replicas_of(candidate);
  Machine machine = machine_;
  if (whole) {
    const auto ranks = std::views::iota(0, replicas.depth);
    costs.devices = replicas.devices({ranks.begin(), ranks.end()});
    costs.sums.how = sums(candidate).how;
  } else {
    machine.topology = replicas.links_of_one(machine_.topology);
    add_partners(costs, machine.topology, candidate);
    costs.devices = machine.topology.devices;
    costs.sums.how = AllReduce::ring;  // which no short sum replaces by another
    // Sums would be thousands of messages, which take as long if they are joined.
    constexpr int most_pieces = 4;
    const double most_bytes = static_cast<double>(std::ranges::max(costs.sum_bytes));
    machine.piece = std::max(machine.piece, most_bytes / most_pieces);
  }
  costs.machine = std::make_shared<const Machine>(machine);
  return one_by_one(costs);
}

/// The plan of one replica. If there are others, each rank has a partner for its sums: a rank that
/// has nothing to do but to meet it, and stands for the same rank of all other replicas.
Plan Evaluation::replica_plan(const Candidate& candidate, Layout layout,
                              const RanksByStage& members) {
  const int depth = candidate.depth();
  layout.width = std::min(layout.width, 2);
  Plan plan = find_schedule(candidate.schedule).make(layout);
  if (layout.recompute) add_recomputation(plan);
  const auto erase_of_partners = [&](const auto& is_gone) {
    for (int rank = depth; rank < plan.ranks(); ++rank) std::erase_if(plan.rows[rank], is_gone);
  };
  // One microbatch of each update shows where they meet, but for a gather's each use.
  if (layout.copies() == 1 && layout.zero < 3)
    erase_of_partners([&](const Instruction& x) {
      return x.micro >= 0 && x.micro % plan.per_step != layout.microbatches;
    });
  plan = lower(std::move(plan), SumPath::group);
  for (const Row& row : plan.rows)
    for (const Instruction& x : row)
      if (meets(x)) plan.groups[x.peer] = members[x.stage];
  erase_of_partners(
      [&](const Instruction& x) { return !meets(x) || members[x.stage].back() < depth; });
  return plan;
}

/// Gives partners their devices: of the next replica, or where sums leave the host, on a host of
/// its own. The sum of a stage's ranks and their partners stands for that of all ranks: in place of
/// its own bytes it has those that take them as many seconds, in a ring.
void Evaluation::add_partners(Costs& costs, Topology& links, const Candidate& candidate) {
  const Sums& sums = this->sums(candidate);
  const Replicas replicas = replicas_of(candidate);
  for (int rank = 0; rank < replicas.depth && replicas.width > 1; ++rank) {
    const std::vector<int> all = replicas.devices({rank});
    const int next = links.device(rank) == all.back() ? all[all.size() - 2] : all.back();
    const bool leaves = machine_.topology.host(all.front()) != machine_.topology.host(all.back());
    links.devices.push_back(leaves ? links.devices_per_host * (candidate.devices() + rank) : next);
  }
  for (std::size_t stage = 0; stage < sums.ranks.size(); ++stage) {
    const std::vector<int>& members = sums.members[stage];
    const SumSeconds ring = sum_seconds(links, members, AllReduce::ring, all_reduce);
    if (ring.per_byte == 0) continue;
    // Each of a half's rounds carries a chunk; a sum that is not in parts has two halves. Pieces
    // hide the latency of all rounds but one.
    const auto count = std::ssize(members);
    const auto bytes = [&](double seconds, int halves) {
      const double chunk_seconds = (seconds - ring.latency / (2.0 * (count - 1))) / halves;
      const double chunk = chunk_seconds * 2 / (ring.per_byte * count);
      return count * static_cast<std::int64_t>(std::ceil(std::max(1.0, chunk)));
    };
    costs.sum_bytes[stage] = bytes(sums.reduce[stage], candidate.layout.zero > 0 ? 1 : 2);
    costs.weight_bytes[stage] = bytes(sums.gather[stage], 1);
  }
}

}  // namespace plangrad::parallel
