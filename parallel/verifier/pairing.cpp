// Pairs messages wire by wire and meetings group by group, and compares the cells of each pair;
// then what is missing when all rows have run, and what is left over on a rank.
// Not here: what a rank may send (replay), whether a meeting ever happens (hang), and what is left
// of weights and sums (versions, sums). Chapters 04 to 06.
#include "parallel/verifier/replay.h"

namespace plangrad::parallel {
namespace {

void number_messages(const Plan& plan, Pairing& pairing) {
  std::unordered_map<std::int64_t, int> wire_of;  // by sender * ranks + receiver
  for_each_cell(plan, [&](int rank, int index, const Instruction& x) {
    if (!travels(x)) return;
    const int from = sends(x) ? rank : x.peer, to = sends(x) ? x.peer : rank;
    const auto [found, is_new] = wire_of.try_emplace(std::int64_t{from} * plan.ranks() + to,
                                                     static_cast<int>(pairing.wires.size()));
    if (is_new) pairing.wires.push_back({from, to, {}, {}});
    Wire& wire = pairing.wires[found->second];
    std::vector<int>& cells = sends(x) ? wire.sends : wire.recvs;
    pairing.ends[rank][index] = {found->second, static_cast<int>(cells.size()), -1};
    cells.push_back(index);
  });
}

void check_wire(const Plan& plan, const Wire& wire) {
  for (std::size_t k = 0; k < wire.recvs.size(); ++k) {
    const Place recv{plan, wire.to, wire.recvs[k]};
    if (k >= wire.sends.size())
      refuse("match", recv, "rank ", wire.from, " sends no such message; it has ",
             wire.sends.size(), " for this rank in all");
    const Instruction& send = plan.rows[wire.from][wire.sends[k]];
    if (!have_same_name(send, recv.instruction()))
      refuse("match", recv, "rank ", wire.from, " sends ", print(send), " as message ", k,
             " to this rank; both ends list the same messages in the same order");
  }
  if (wire.sends.size() > wire.recvs.size())
    refuse("end", {plan, wire.from, wire.sends[wire.recvs.size()]},
           "the message is never received; rank ", wire.to, " has ", wire.recvs.size(),
           " recvs from this rank");
}

/// For each member of a group, the cells of its row that meet in the group.
std::vector<std::vector<int>> cells_of(const Plan& plan, const std::vector<int>& members,
                                       int group) {
  std::vector<std::vector<int>> cells;
  for (int rank : members) {
    cells.emplace_back();
    for (int index = 0; index < static_cast<int>(plan.rows[rank].size()); ++index) {
      const Instruction& x = plan.rows[rank][index];
      if (meets(x) && x.peer == group) cells.back().push_back(index);
    }
  }
  return cells;
}

void add_meetings(const Plan& plan, int group, Pairing& pairing) {
  const std::vector<int>& members = plan.groups[group];
  const auto cells = cells_of(plan, members, group);
  const auto longest = std::ranges::max_element(cells, {}, std::ranges::size);
  for (std::size_t k = 0; k < longest->size(); ++k) {
    Meeting meeting{group, static_cast<int>(longest - cells.begin()), {}};
    for (std::size_t member = 0; member < members.size(); ++member) {
      meeting.cells.push_back(k < cells[member].size() ? cells[member][k] : -1);
      if (meeting.cells.back() >= 0)
        pairing.ends[members[member]][meeting.cells.back()].meeting =
            static_cast<int>(pairing.meetings.size());
    }
    pairing.meetings.push_back(std::move(meeting));
  }
}

void check_meeting(const Plan& plan, const Meeting& meeting) {
  const std::vector<int>& members = plan.groups[meeting.group];
  const Place at{plan, members[meeting.guide], meeting.cells[meeting.guide]};
  for (std::size_t member = 0; member < members.size(); ++member) {
    const int rank = members[member];
    if (meeting.cells[member] < 0)
      refuse("together", at, "rank ", rank, " never joins; all of group ", meeting.group, " must");
    const Instruction& other = plan.rows[rank][meeting.cells[member]];
    if (other.op != at.instruction().op || !have_same_name(other, at.instruction()))
      refuse("together", at, "rank ", rank, " is at ", print(other), " instead");
  }
}

/// Checks that a member has each stage's finished sum; if it is sharded, that all its holders do.
void check_norm(const Place& at, const std::vector<int>& members, const Meeting& meeting,
                const std::vector<Replay>& rows, const std::vector<std::vector<int>>& holders) {
  std::vector<std::size_t> counted(holders.size());
  for (std::size_t i = 0; i < members.size(); ++i)
    for (int stage : rows[members[i]].sums().counted(meeting.cells[i])) ++counted[stage];
  for (std::size_t stage = 0; stage < counted.size(); ++stage)
    if (counted[stage] < (at.plan.sharded > 0 ? holders[stage].size() : 1))
      refuse("norm", at, "the sum of stage ", stage, " is not finished in group ", list(members),
             " by then");
}

}  // namespace

bool have_same_name(const Instruction& a, const Instruction& b) {
  return a.what == b.what && a.stage == b.stage && a.micro == b.micro && a.version == b.version;
}

Pairing pairs_in_order(const Plan& plan) {
  Pairing pairing;
  for (const Row& row : plan.rows) pairing.ends.emplace_back(row.size());
  number_messages(plan, pairing);
  for (int group = 0; group < static_cast<int>(plan.groups.size()); ++group)
    add_meetings(plan, group, pairing);
  return pairing;
}

Pairing pair_up(const Plan& plan) {
  Pairing pairing = pairs_in_order(plan);
  for (const Wire& wire : pairing.wires) check_wire(plan, wire);
  for (const Meeting& meeting : pairing.meetings) check_meeting(plan, meeting);
  return pairing;
}

void check_meetings(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows) {
  const std::vector<std::vector<int>> holders = parallel::holders(plan);
  for (const Meeting& meeting : pairing.meetings) {
    const std::vector<int>& members = plan.groups[meeting.group];
    const Place at{plan, members[0], meeting.cells[0]};
    const Instruction& x = at.instruction();
    if (x.what == Value::norm) {
      check_norm(at, members, meeting, rows, holders);
      continue;
    }
    std::vector<Sum> sums;
    for (std::size_t i = 0; x.what == Value::gradient_sum && i < members.size(); ++i)
      sums.push_back(rows[members[i]].sums().brought(meeting.cells[i]));
    const std::string lacks = sums.empty() ? "" : lacking(plan, sums, x.stage, x.version);
    if (!lacks.empty()) refuse("sum", at, "the gradient lacks (stage, microbatch) ", lacks);
    if (plan.sharded > 0 && members != holders[x.stage])
      refuse("shape", at, "shards of this stage are on ranks ", list(holders[x.stage]),
             ", but the group is ", list(members));
  }
}

// ---- ends ----

void Passages::check_end() const {
  auto check = [&](const std::vector<int>& ranks, const char* direction) {
    auto found = std::find(ranks.begin(), ranks.end(), -1);
    if (found == ranks.end()) return;
    const int micros = plan_.last_micro() - plan_.first_micro();
    const int at = static_cast<int>(found - ranks.begin());
    throw PlanError(
        "end", -1, -1,
        text("end: microbatch ", plan_.first_micro() + at % micros, " never runs ", direction,
             " through stage ", at / micros, "; every microbatch passes every stage once"));
  };
  check(forward_, "forward");
  if (plan_.steps > 0) check(backward_, "backward");
}

void Replay::check_leaks() const {
  versions_.check_leaks();
  sums_.check_leaks();
  int pass = -1, value = -1;  // the last cells with something left over
  for (const auto& [name, left] : passes_) pass = std::max(pass, left.forward_at);
  for (const auto& [name, cell] : here_)
    if (plan_.rows[rank_][cell].op != Op::norm) value = std::max(value, cell);
  if (pass >= 0)
    refuse("leak", {plan_, rank_, pass}, "its activations are left over: ",
           plan_.steps == 0 ? "no drop frees them" : "no backward frees them");
  if (value >= 0)
    refuse("leak", {plan_, rank_, value}, "what it brings is left over; nothing here takes it");
}

}  // namespace plangrad::parallel
