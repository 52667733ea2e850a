// A flow changes its rate where another one on its links, or on theirs, begins or ends.
// Chapter 04; Bertsekas and Gallager 1992, section 6.5.2 (max-min fairness).
#include "parallel/simulation/links.h"

#include <algorithm>
#include <limits>

#include "autograd/error.h"

namespace plangrad::parallel {
constexpr double never = std::numeric_limits<double>::infinity();

bool Topology::shares_links() const {
  return std::ranges::any_of(links, [](const Link& link) { return link.reach != Reach::pair; });
}

Topology pair_links(double latency, double bandwidth) {
  return {{{"links", Reach::pair, bandwidth, latency}}};
}

void check(const Topology& topology) {
  for (const auto& [name, reach, bandwidth, latency, one_way] : topology.links) {
    PG_CHECK(latency >= 0, name, ": the latency is ", latency, " s, expected 0 or more");
    PG_CHECK(bandwidth > 0, name, ": the bandwidth is ", bandwidth,
             " bytes/s, expected more than 0");
  }
}

/// The flow of a pair, whose links are found once.
Traffic::Flow& Traffic::flow_of(const Pair& pair) {
  const auto [found, is_new] = flows_.try_emplace(pair, Flow{pair});
  Flow& flow = found->second;
  if (!is_new) return flow;
  int counted = -1;  // the entry whose latency is added
  topology_.for_each_link(pair.first, pair.second, [&](const Link& link, const LinkUse& use) {
    if (use.place != counted) flow.latency += link.latency;
    counted = use.place;
    const auto [number, added] = numbers_.try_emplace(use, static_cast<int>(users_.size()));
    if (added) {
      bandwidths_.push_back(link.bandwidth);
      users_.emplace_back();
    }
    flow.links.push_back(number->second);
  });
  PG_CHECK(!flow.links.empty() || topology_.links.empty() ||
               topology_.host(pair.first) == topology_.host(pair.second),
           "no link joins hosts: use devices of one, or a machine with a link \"of a host\"");
  return flow;
}

void Traffic::start(int from, int to, std::int64_t bytes, double now, std::int64_t number) {
  Flow& flow = flow_of({from, to});
  if (flow.links.empty()) return void(arriving_.insert({now, number, flow.ranks}));
  flow.messages.push_back({bytes, number});
  if (flow.messages.size() > 1) return;
  flow.left = static_cast<double>(bytes);
  flow.since = now;
  flow.rate = 0;
  flow.end = never;
  active_.insert({never, flow.ranks, &flow});
  for (int link : flow.links) users_[link].push_back(&flow);
  share(flow, now);
}

/// Sets when the first message of an active flow is out.
void Traffic::set_end(Flow& flow, double end) {
  active_.erase({flow.end, flow.ranks, &flow});
  flow.end = end;
  active_.insert({end, flow.ranks, &flow});
}

std::optional<Traffic::Arrival> Traffic::next(double until) {
  while (true) {
    const double out = active_.empty() ? never : std::get<0>(*active_.begin());
    const double in = arriving_.empty() ? never : arriving_.begin()->time;
    if (std::min(out, in) > until || (out == never && in == never)) return std::nullopt;
    if (out <= in) {
      leave(*std::get<Flow*>(*active_.begin()), out);
      continue;
    }
    return arriving_.extract(arriving_.begin()).value();
  }
}

/// The first message of a flow is out, and the next one follows.
void Traffic::leave(Flow& flow, double now) {
  arriving_.insert({now + flow.latency, flow.messages.front().number, flow.ranks});
  flow.messages.pop_front();
  if (!flow.messages.empty()) {
    flow.left = static_cast<double>(flow.messages.front().bytes);
    flow.since = now;
    set_end(flow, now + flow.left / flow.rate);
    return;
  }
  active_.erase({flow.end, flow.ranks, &flow});
  for (int link : flow.links) std::erase(users_[link], &flow);
  share(flow, now);
}

double Traffic::soonest(int rank) const {
  const bool shares = topology_.shares_links();
  auto concerns = [&](const Pair& ranks) { return ranks.first == rank || ranks.second == rank; };
  double first = never;
  for (const auto& [end, ranks, flow] : active_)
    if (shares || concerns(ranks)) {
      first = end + (shares ? 0 : flow->latency);
      break;
    }
  for (const Arrival& arrival : arriving_)
    if (concerns(arrival.ranks)) return std::min(first, arrival.time);
  return first;
}

/// Shares the bandwidth of the links that `changed` uses, of the links that their other flows use,
/// and so on. The link with the least for each flow sets the rate of its flows, and what they leave
/// of other links is shared by the rest.
void Traffic::share(const Flow& changed, double now) {
  std::vector<int>& links = reached_links_;
  std::vector<Flow*>& flows = reached_flows_;  // without a new rate
  links.clear(), flows.clear();
  rest_.resize(users_.size());
  auto reach = [&](const std::vector<int>& more) {
    for (int link : more)
      if (rest_[link].flows < 0) {
        rest_[link] = {bandwidths_[link], static_cast<int>(users_[link].size())};
        links.push_back(link);
      }
  };
  reach(changed.links);
  for (std::size_t i = 0; i < links.size(); ++i)
    for (Flow* flow : users_[links[i]])
      if (!std::exchange(flow->reached, true)) {
        flows.push_back(flow);
        reach(flow->links);
      }
  std::ranges::sort(links);
  while (!flows.empty()) {
    auto part = [&](int each) {
      const Rest& left = rest_[each];
      return left.flows > 0 ? std::max(left.bandwidth, 0.0) / left.flows : never;
    };
    const int link = *std::ranges::min_element(links, {}, part);
    const double rate = part(link);
    std::erase_if(flows, [&](Flow* flow) {
      if (std::ranges::find(flow->links, link) == flow->links.end()) return false;
      flow->reached = false;
      for (int used : flow->links) {
        if (rate < never) rest_[used].bandwidth -= rate;
        --rest_[used].flows;
      }
      if (flow->rate == rate) return true;
      flow->left = std::max(0.0, flow->left - flow->rate * (now - flow->since));
      flow->since = now;
      flow->rate = rate;
      set_end(*flow, now + flow->left / rate);
      return true;
    });
  }
  for (int link : links) rest_[link] = {};
}

}  // namespace plangrad::parallel
