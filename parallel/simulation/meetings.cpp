// The engine's rules (collective_run.h): a member sends in the order of its list, a few pieces at a
// time, each once what it sends has arrived; arrivals are taken in that order, too. Chapter 04.
#include "parallel/simulation/events.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {
namespace {

bool is_sum(const Instruction& x) { return x.op == Op::reduce && x.what == Value::gradient_sum; }

bool is_encoded(const Instruction& x, const Plan& plan) {
  return is_sum(x) && !plan.codec.is_none() && is_local(plan.codec);
}

/// Bytes of a whole piece as it is sent.
std::int64_t piece_bytes(const Instruction& x, const Plan& plan, const Costs& costs) {
  const bool chosen = costs.machine && costs.machine->piece > 0;
  const std::int64_t piece = chosen ? std::llround(costs.machine->piece) : default_piece;
  if (!is_encoded(x, plan)) return piece;
  return std::max<std::int64_t>(encoded_bytes(plan.codec, piece / 4, 4), 1);
}

/// How many sums follow one another: of each factor, where the codec makes factors.
int sums_in(const Instruction& x, const Plan& plan) {
  return is_sum(x) ? plan.codec.kind().sums : 1;
}

/// The sum or gather of an instruction as one member of its group runs it.
Collective list_of(const Instruction& x, const Plan& plan, const Costs& costs, int member) {
  const std::vector<int>& ranks = plan.groups[x.peer];
  const int members = static_cast<int>(ranks.size());
  Summing summing{x.op == Op::norm ? AllReduce::scatter_reduce : costs.sums.how};
  if (summing.how == AllReduce::by_transport) summing.how = AllReduce::ring;
  const Topology links = topology_of(costs);
  const std::vector<int>& hosts = costs.sums.hosts;
  for (int rank : ranks)
    summing.hosts.push_back(hosts.empty() ? links.host(rank) : value_at(rank, hosts));
  if (x.op == Op::gather) return all_gather(summing, member, members);
  if (is_sum(x) && plan.sharded > 0 && is_local(plan.codec))
    return reduce_scatter(summing, member, members);
  if (!is_encoded(x, plan))
    summing.how = fitted(summing.how, bytes_of(x, costs) / sums_in(x, plan), members);
  return all_reduce(summing, member, members);
}

}  // namespace

/// The lists of a group's members, side by side.
class MeetingRun {
 public:
  /// `number`: of its messages. The plan and the traffic must outlive it.
  MeetingRun(const Instruction& x, const Plan& plan, const Costs& costs, Traffic& traffic,
             int number)
      : ranks_(plan.groups[x.peer]), traffic_(traffic), number_(number) {
    const int sums = sums_in(x, plan);
    const std::int64_t bytes = bytes_of(x, costs) / sums;
    // In large groups pieces are larger, so that about a million messages at most are simulated.
    const Sent sent = sent_by(x, ranks_[0], plan, costs);
    const std::int64_t messages = std::max<std::int64_t>(1, sent.sends * std::ssize(ranks_));
    const std::int64_t most = std::max<std::int64_t>(1, 1'000'000 / messages);
    const std::int64_t piece =
        std::max(piece_bytes(x, plan, costs), (bytes / sent.chunks + most - 1) / most);
    for (std::size_t member = 0; member < ranks_.size(); ++member) {
      const Collective list = list_of(x, plan, costs, static_cast<int>(member));
      members_.emplace_back().arrived.resize(ranks_.size());
      for (int sum = 0; sum < sums; ++sum) add(members_.back(), list, bytes, piece);
    }
  }

  void begin(double now) {
    for (std::size_t member = 0; member < members_.size(); ++member) post(member, now);
  }
  /// One of its messages has arrived.
  void arrive(const Traffic::Arrival& message) {
    const std::size_t from = place(message.ranks.first), to = place(message.ranks.second);
    --under_way_;
    --members_[from].under_way;
    take(members_[to], from);
    post(from, message.time);
    post(to, message.time);
  }
  bool is_over() const { return under_way_ == 0; }

 private:
  struct Send {
    int to;
    std::int64_t bytes;
    std::size_t after;  // how many receives bring what it sends
  };
  struct Member {
    std::vector<Send> sends = {};
    std::vector<int> receives = {};  // senders
    std::vector<int> arrived = {};   // by sender: messages that are not taken
    std::size_t posted = 0, taken = 0;
    int under_way = 0;
  };

  std::size_t place(int rank) const { return std::ranges::find(ranks_, rank) - ranks_.begin(); }

  /// Adds a list to what a member does. A value of unknown size still has a message for each chunk.
  static void add(Member& member, const Collective& list, std::int64_t bytes, std::int64_t piece) {
    const std::size_t before = member.receives.size();
    std::map<std::int64_t, std::size_t> changed;  // by a piece's first element: the receives so far
    for (const Piece& x : cut(list, std::max<std::int64_t>(bytes, list.chunks), piece)) {
      std::size_t& receives = changed.try_emplace(x.range.begin, before).first->second;
      if (x.action == Exchange::Action::send) {
        member.sends.push_back({x.peer, bytes > 0 ? x.range.size() : 0, receives});
        continue;
      }
      member.receives.push_back(x.peer);
      receives = member.receives.size();
    }
  }

  void post(std::size_t from, double now) {
    Member& member = members_[from];
    for (; member.posted < member.sends.size(); ++member.posted) {
      const auto [to, bytes, after] = member.sends[member.posted];
      if (member.under_way == pieces_in_flight || member.taken < after) return;
      ++member.under_way;
      ++under_way_;
      traffic_.start(ranks_[from], ranks_[to], bytes, now, number_);
    }
  }

  static void take(Member& member, std::size_t from) {
    ++member.arrived[from];
    for (; member.taken < member.receives.size(); ++member.taken) {
      int& arrived = member.arrived[member.receives[member.taken]];
      if (arrived == 0) return;
      --arrived;
    }
  }

  const std::vector<int>& ranks_;
  Traffic& traffic_;
  const int number_;
  std::vector<Member> members_;
  int under_way_ = 0;
};

Sent sent_by(const Instruction& x, int rank, const Plan& plan, const Costs& costs) {
  if (!meets(x)) return {sends(x) ? 1 : 0, 1, 1};
  const std::vector<int>& ranks = plan.groups[x.peer];
  const auto member = std::ranges::find(ranks, rank) - ranks.begin();
  const Collective list = list_of(x, plan, costs, static_cast<int>(member));
  auto is_send = [](const Exchange& each) { return each.action == Exchange::Action::send; };
  Sent sent{0, list.chunks, 0};
  for (const Round& round : list.rounds) {
    const auto sends = std::ranges::count_if(round, is_send);
    sent.sends += sends;
    sent.rounds += std::max<std::int64_t>(1, (sends + pieces_in_flight - 1) / pieces_in_flight);
  }
  return sent;
}

double meeting_seconds(const Instruction& x, const Plan& plan, const Costs& costs) {
  Traffic traffic(topology_of(costs));
  MeetingRun meeting(x, plan, costs, traffic, 0);
  double seconds = 0;
  meeting.begin(seconds);
  while (const auto message = traffic.next(std::numeric_limits<double>::infinity())) {
    meeting.arrive(*message);
    seconds = message->time;
  }
  return seconds;
}

// ---- the ends of events ----

Ends::Ends(const Plan& plan, const Events& events, const Costs& costs)
    : plan_(plan),
      events_(events),
      costs_(costs),
      traffic_(costs.machine ? std::make_unique<Traffic>(topology_of(costs)) : nullptr) {}

Ends::~Ends() = default;

void Ends::begin(int event, double start) {
  waiting_.emplace_back(start, event);
  if (traffic_) std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
}

std::optional<std::pair<int, double>> Ends::next() {
  constexpr double never = std::numeric_limits<double>::infinity();
  while (true) {
    if (const auto ended = arrived(waiting_.empty() ? never : waiting_.front().first)) return ended;
    if (waiting_.empty()) return std::nullopt;
    if (traffic_) std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    const auto [start, event] = waiting_.back();
    waiting_.pop_back();
    if (const auto end = end_of(event, start)) return std::pair(event, *end);
  }
}

/// The end of an event that begins now; none: it is not known yet.
std::optional<double> Ends::end_of(int event, double start) {
  const Instruction& x = *events_.cells[event];
  if (!traffic_ || !(sends(x) || meets(x))) return alone(event, start);
  if (sends(x)) {
    traffic_->start(events_.rank_of(event), x.peer, bytes_of(x, costs_), start, event);
    return std::nullopt;
  }
  auto& meeting = meetings_[event] =
      std::make_unique<MeetingRun>(x, plan_, costs_, *traffic_, event);
  meeting->begin(start);
  return meeting->is_over() ? std::optional(start) : std::nullopt;
}

/// The next message or meeting that ends up to `until`.
std::optional<std::pair<int, double>> Ends::arrived(double until) {
  while (traffic_) {
    const auto message = traffic_->next(until);
    if (!message) break;
    const auto event = static_cast<int>(message->number);
    const auto meeting = meetings_.find(event);
    if (meeting != meetings_.end()) meeting->second->arrive(*message);
    if (meeting == meetings_.end() || meeting->second->is_over())
      return std::pair(event, message->time);
  }
  return std::nullopt;
}

double Ends::alone(int event, double start) {
  const Instruction& x = *events_.cells[event];
  const int rank = events_.rank_of(event);
  if (costs_.computation && is_compute(x) && !drops(x))
    return start + costs_.computation(x, rank, event - events_.row_begin[rank]);
  if (!meets(x)) return start + duration(x, rank, plan_, costs_);
  const auto [found, is_new] = seconds_.try_emplace({x.op, x.what, x.stage, x.peer});
  if (is_new) found->second = meeting_seconds(x, plan_, costs_);
  return start + found->second;
}

}  // namespace plangrad::parallel
