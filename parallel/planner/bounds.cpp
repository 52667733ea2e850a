// Bounds: what a candidate takes at least, in seconds and bytes, without a simulation. They hold
// for every schedule, so they read its layout, and what small plans of it say of order.
// Not here: how long it takes (evaluation.cpp). Chapter 16.

#include "parallel/planner/evaluation.h"

namespace plangrad::parallel {

/// The layout of one pipeline, in which nothing is recomputed or encoded.
static Layout without_replicas(Layout layout) {
  layout.width = 1, layout.zero = 0, layout.recompute = false;
  layout.codec = layout.channel = {};
  return layout;
}

Evaluation::RankWork Evaluation::rank_work(const Candidate& candidate, int rank) {
  const std::vector<StageSeconds>& seconds = stages(candidate).seconds;
  const Sums& sums = this->sums(candidate);
  const Layout& layout = candidate.layout;
  const int last = layout.stages - 1, passes = layout.microbatches / layout.copies();
  const bool splits = traits(candidate).splits;
  RankWork own{.first = last};
  for (int stage : layout.stages_of(rank)) {
    const StageSeconds& each = seconds[stage];
    const double update = each.update / shards(layout);
    own.work += passes * (each.forward + (splits ? each.input_part : each.backward));
    own.parts += splits ? passes * each.weight_part : 0;
    // Where a backward follows its forward at once, nothing is computed again.
    if (layout.recompute && layout.stages > 1 && stage < last)
      own.work += std::max(0, passes - 1) * each.forward;
    own.updates += update;
    own.reduce += sums.reduce[stage];
    own.gather += sums.gather[stage];
    own.forward += each.forward;
    own.least_gather = std::min(own.least_gather, sums.gather[stage]);
    own.least_reduce = std::min(own.least_reduce, sums.reduce[stage]);
    own.least_finish = std::min(own.least_finish, sums.reduce[stage] + update);
    own.first = std::min(own.first, stage);
  }
  return own;
}

double Evaluation::bound(const Candidate& candidate, std::vector<double> messages) {
  messages.resize(candidate.layout.stages, 0);
  const std::vector<StageSeconds>& seconds = stages(candidate).seconds;
  const Sums& sums = this->sums(candidate);
  const Layout& layout = candidate.layout;
  const int last = layout.stages - 1, passes = layout.microbatches / layout.copies();
  const auto renew = [&](int stage) {
    return sums.reduce[stage] + seconds[stage].update / shards(layout) + sums.gather[stage];
  };
  const auto [overlaps, splits, keeps_one, drifts, by_stage] = traits(candidate);
  const bool is_tied = last + 1 < std::ssize(sums.reduce), waits = keeps_one && !drifts;
  std::vector<double> before(layout.stages + 1, 0), after(layout.stages + 1, 0);
  for (int stage = 0; stage <= last; ++stage) {
    const StageSeconds& each = seconds[stage];
    before[stage + 1] = before[stage] + each.forward + messages[stage];
    after[stage + 1] = after[stage] + messages[stage] + (splits ? each.input_part : each.backward);
  }
  double most = 0;
  for (int rank = 0; rank < candidate.depth(); ++rank) {
    const RankWork own = rank_work(candidate, rank);
    if (overlaps) {
      // A gather follows its step, which comes right before what reads its weights; the first reads
      // one stage. If it is the next backward, a forward at most hides the sum; if it is the next
      // forward, nothing does.
      double exposed = own.least_gather;
      if (drifts) exposed += std::max(0.0, own.reduce - 2 * own.forward);
      if (waits && layout.stages == candidate.depth()) exposed += own.reduce;
      most =
          std::max({most, own.work + own.parts + own.updates + exposed, own.reduce + own.gather});
    } else {
      // A group's sums and gathers follow each other. At level 3 each use has a gather, which
      // nothing hides if the use before it has the same weights; otherwise weights are whole again
      // when the update is over.
      double tail = std::max(
          {own.updates, own.least_finish, layout.zero == 3 ? 0 : own.least_reduce + own.gather});
      double gathers = own.gather;
      if (layout.zero == 3) {
        gathers *= 2 * passes;
        tail += passes * (sums.gather[0] + sums.gather[last]);
      }
      most =
          std::max({most, before[own.first] + own.work + own.parts + tail, own.reduce + gathers});
    }
    // The last backward of stage 0 comes before its sum, before that of a tied table, and before
    // the first forward on the next version, if that has to wait.
    if (own.first > 0 && (!overlaps || waits))
      most = std::max(most, before[own.first] + own.work + after[own.first] +
                                std::max(renew(0), is_tied && !overlaps ? renew(last + 1) : 0));
  }
  // In place, the last stage's backwards wait for the tied sum of the update before, and that for
  // the update's last backward on stage 0.
  if (drifts && is_tied)
    most = std::max(most, passes * seconds[last].backward + after[last] + renew(last + 1));
  return most;
}

/// The most microbatches between forward and backward on the first stage; 0: not known.
int Evaluation::most_in_flight(const Candidate& candidate) {
  if (candidate.depth() == 1) return 1;
  const int most = in_flight(candidate).first;
  return traits(candidate).overlaps ? most : std::min(most, candidate.layout.microbatches);
}

/// Adds what a rank's row does with one stage.
///   flushes: an update's microbatches end before those of the next begin
void Evaluation::InFlight::add(const Row& row, int stage, int per_update, bool flushes) {
  constexpr int unknown = std::numeric_limits<int>::max();
  int now = 0, at_most = 0, at_least = unknown, since = unknown, update = -1;
  for (const Instruction& x : row) {
    if (x.stage != stage || !uses_weights(x) || x.what == Value::weight_part) continue;
    if (x.op != Op::forward) {
      since = std::min(since, --now);
      continue;
    }
    const int next = flushes ? x.micro / per_update : 0;
    if (next == update) at_least = std::min(at_least, since);
    update = next, since = unknown;
    at_most = std::max(at_most, ++now);
  }
  if (stage == 0) first += at_most;
  most.push_back(at_most);
  ahead.push_back(at_least == unknown ? 0 : at_least);
}

/// Seconds that the microbatches of an update take at least to pass stages s to t back and forth.
/// Stage s begins a forward when fewer than K before it have no backward yet, and stage t a
/// backward when it is A forwards ahead. So K - A microbatches take the way from s to t and back.
/// Where updates flush, bound_with_messages() adds the way of one microbatch through all stages.
double Evaluation::passing(const Candidate& candidate, const std::vector<double>& messages) {
  const InFlight& order = in_flight(candidate);
  const int micros = candidate.layout.microbatches, stages = candidate.layout.stages;
  const std::vector<StageSeconds>& seconds = this->stages(candidate).seconds;
  const Traits& traits = this->traits(candidate);
  double most = 0;
  for (int s = 0; s < stages && candidate.layout.chunks == 1 && !order.most.empty(); ++s) {
    double way = 0;
    for (int t = s; t < stages; ++t) {
      way += seconds[t].forward + (traits.splits ? seconds[t].input_part : seconds[t].backward);
      const int held = order.most[s], shift = held - order.ahead[t];
      const int rounds = micros > held ? (micros - 1 - held) / shift + 1 : 0;
      most = std::max(most, way * (traits.flushes() ? rounds : 1.0 * micros / shift));
      way += 2 * messages[t];
    }
  }
  return most;
}

/// Seconds that hosts' cards take at least to carry an update's messages and sums. Where updates
/// flush, a host's sums come between the end of one of its ranks and the beginning of one, so that
/// the work of an update on a rank comes on top.
double Evaluation::carrying(const Candidate& candidate, const Costs& costs, const Topology& links) {
  const Layout& layout = candidate.layout;
  const Traits& traits = this->traits(candidate);
  const std::vector<StageSeconds>& seconds = stages(candidate).seconds;
  std::map<std::pair<int, bool>, double> sums, messages;  // by host, and whether out: bytes
  const auto load = [&](auto& bytes_of, int from, int to, std::int64_t bytes, double times) {
    if (links.host(from) == links.host(to)) return;
    bytes_of[{links.host(from), true}] += times * static_cast<double>(bytes);
    bytes_of[{links.host(to), false}] += times * static_cast<double>(bytes);
  };
  std::map<int, double> least_work;          // of an update on a rank of the host
  const bool is_one = layout.copies() == 1;  // of two copies sums alone are counted
  const bool comes_between =
      traits.flushes() && layout.stages == candidate.depth() && layout.zero < 2 && is_one;
  for (int stage = 0; stage < layout.stages; ++stage) {
    const int from = layout.rank_of(stage), to = layout.rank_of(stage + 1);
    const StageSeconds& each = seconds[stage];
    const double work =
        layout.microbatches * (each.forward + (traits.splits ? each.input_part : each.backward));
    double& least = least_work.try_emplace(links.host(from), endless).first->second;
    least = comes_between ? std::min(least, work) : 0;
    if (stage + 1 == layout.stages || !is_one) continue;
    load(messages, from, to, costs.activation_bytes[stage], layout.microbatches);
    load(messages, to, from, costs.activation_gradient_bytes[stage], layout.microbatches);
  }
  const RanksByStage& members = this->sums(candidate).members;
  for (std::size_t stage = 0; stage < members.size(); ++stage) {
    const std::vector<int>& group = members[stage];
    const auto count = std::ssize(group);
    const std::int64_t sum = costs.sum_bytes[stage];
    const std::int64_t bytes = sum + (layout.zero > 0 ? costs.weight_bytes[stage] : sum);
    for (int i = 0; i < count; ++i)
      load(sums, group[i], group[(i + 1) % count], bytes / count, count - 1);
  }
  double most = 0;
  for (const Link& link : links.links)
    for (const auto& [host, work] : least_work) {
      if (link.reach != Reach::card) continue;
      const auto bytes = [&, host = host](auto& bytes_of) {
        const double out = bytes_of[{host, true}], in = bytes_of[{host, false}];
        return link.one_way ? out + in : std::max(out, in);
      };
      most = std::max({most, (bytes(sums) + bytes(messages)) / link.bandwidth,
                       work + bytes(sums) / link.bandwidth});
    }
  return most;
}

double Evaluation::bound_with_messages(const Candidate& candidate) {
  const Stages& stages = this->stages(candidate);
  const Layout& layout = candidate.layout;
  const Costs costs = this->costs(candidate, false);
  const Topology links = topology_of(costs);
  Traffic traffic(links);
  double latency = 0;
  std::vector<double> messages(layout.stages, 0);  // the shorter one of the two ways
  for (int stage = 0; stage < layout.stages; ++stage) {
    const StageSeconds& each = stages.seconds[stage];
    latency += each.forward + (traits(candidate).splits ? each.input_part : each.backward);
    const int from = layout.rank_of(stage), to = layout.rank_of(stage + 1);
    if (stage + 1 == layout.stages || from == to) continue;
    messages[stage] = endless;
    for (const auto& [sender, receiver] : {std::pair(from, to), std::pair(to, from)}) {
      const std::int64_t bytes =
          (sender == from ? costs.activation_bytes : costs.activation_gradient_bytes)[stage];
      traffic.start(sender, receiver, bytes, latency, stage);
      const double seconds = traffic.next(endless)->time - latency;
      messages[stage] = std::min(messages[stage], seconds);
      latency += seconds;
    }
  }
  double most = std::max(bound(candidate, messages), carrying(candidate, costs, links));
  if (const int first = most_in_flight(candidate); first > 0)
    most = std::max(most, layout.microbatches * latency / first);
  double passes = passing(candidate, messages);
  if (traits(candidate).flushes() && layout.stages == candidate.depth())
    passes += latency + this->sums(candidate).reduce[0] + stages.seconds[0].update / shards(layout);
  return std::max(most, passes);
}

/// How many microbatches each stage holds at once, by the order of rows of a short plan. A longer
/// plan holds no others, if ranks hold one stage. Where updates overlap, those of several are
/// counted. Empty lists: not known.
const Evaluation::InFlight& Evaluation::in_flight(const Candidate& candidate) {
  const int depth = candidate.depth(), micros = candidate.layout.microbatches;
  Layout small = without_replicas(candidate.layout);
  const bool overlaps = traits(candidate).overlaps;
  small.microbatches = small.chunks > 1 ? micros : 2 * depth + 2;
  if (overlaps) small.microbatches = std::min(small.microbatches, micros);
  small.steps = overlaps ? 2 + (2 * depth + 2) / small.microbatches : 1;
  const auto [place, is_new] =
      in_flight_.try_emplace({candidate.schedule, small.stages, depth, small.microbatches});
  InFlight& found = place->second;
  if (!is_new || (small.chunks > 1 && micros > 4 * depth)) return found;
  const Plan plan = find_schedule(candidate.schedule).make(small);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    found.add(plan.rows[rank], small.chunks == 1 ? rank : 0, plan.per_step,
              traits(candidate).flushes());
  if (plan.in_flight > 0) found = {plan.in_flight};  // rows have no order
  if (found.first >= small.steps * small.microbatches)
    found.first = std::numeric_limits<int>::max();
  return found;
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
      const double weights = weight_bytes(each), whole = layout.zero == 3 ? weights : 0;
      state += (layout.zero == 3 ? weights / layout.width : weights) +
               static_cast<double>(each.bytes.optimizer) / shards(layout);
      const double sum = whole + sum_bytes(each);
      during = std::max(during, has_second(layout) ? sum + kept : std::max(sum, kept));
      // A microbatch that was dropped after its forward still has its input.
      if (stage == 0 && layout.copies() == 1)
        during = std::max(during, at_once * (drops ? static_cast<double>(each.bytes.input) : kept));
    }
    most = std::max(most, state + during);
  }
  return most;
}

/// The traits of a schedule, which a small plan of it shows.
const Evaluation::Traits& Evaluation::traits(const Candidate& candidate) {
  const int chunks = candidate.depth() == 1 ? 0 : candidate.layout.chunks;  // one rank has none
  const auto [place, is_new] = traits_.try_emplace({candidate.schedule, chunks});
  Traits& traits = place->second;
  if (!is_new || chunks == 0) return traits;
  Layout small = without_replicas(candidate.layout);
  small.stages = 4 * small.chunks / small.copies();
  small.microbatches = 8;
  std::vector<int> order;  // of the stages of one update's backwards
  const auto seconds = [&](int steps) {
    small.steps = steps;
    const Plan plan = make_plan(candidate.schedule, small);
    for (const Instruction& x : plan.rows[0]) {
      traits.splits |= x.what == Value::input_part;
      if (x.op == Op::backward && steps == 1 && (order.empty() || order.back() != x.stage))
        order.push_back(x.stage);
    }
    traits.keeps_one = plan.kept(0) == 1;
    return simulate_unverified(plan, Costs()).makespan();
  };
  traits.drifts = find_schedule(candidate.schedule).drifts;
  traits.overlaps = seconds(3) - seconds(2) < (1 - 1e-9) * seconds(1);
  traits.by_stage = order.size() > 1 && order.size() == small.stages_of(0).size();
  return traits;
}

}  // namespace plangrad::parallel
