// Counts messages wire by wire and meetings group by group, and compares what meets.
// Not here: what they carry (replay), and whether the meeting ever happens (hang).
// Chapter 04.
#include "parallel/verifier/pairing.h"

#include <algorithm>
#include <unordered_map>

#include "parallel/verifier/place.h"

namespace paragrad::parallel {
namespace {

/// Whether two ends call their message, or meeting, the same.
bool same_name(const Instruction& a, const Instruction& b) {
  return a.what == b.what && a.stage == b.stage && a.micro == b.micro && a.version == b.version;
}

void number_messages(const Plan& plan, Pairing& pairing) {
  std::unordered_map<std::int64_t, int> wire_of;  // by sender * ranks + receiver
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (int index = 0; index < static_cast<int>(plan.rows[rank].size()); ++index) {
      const Instruction& x = plan.rows[rank][index];
      if (!travels(x)) continue;
      const int from = sends(x) ? rank : x.peer, to = sends(x) ? x.peer : rank;
      const auto [found, is_new] = wire_of.try_emplace(std::int64_t{from} * plan.ranks() + to,
                                                       static_cast<int>(pairing.wires.size()));
      if (is_new) pairing.wires.push_back({from, to, {}, {}});
      Wire& wire = pairing.wires[found->second];
      std::vector<int>& cells = sends(x) ? wire.sends : wire.recvs;
      pairing.ends[rank][index] = {found->second, static_cast<int>(cells.size()), -1};
      cells.push_back(index);
    }
}

void check_wire(const Plan& plan, const Wire& wire) {
  for (std::size_t k = 0; k < wire.recvs.size(); ++k) {
    const Place recv{plan, wire.to, wire.recvs[k]};
    if (k >= wire.sends.size())
      refuse("match", recv, "rank ", wire.from, " sends no such message; it has ",
             wire.sends.size(), " for this rank in all");
    const Instruction& send = plan.rows[wire.from][wire.sends[k]];
    if (!same_name(send, recv.instruction()))
      refuse("match", recv, "rank ", wire.from, " sends ", print(send), " as message ", k,
             " to this rank; both ends list the same messages in the same order");
  }
  if (wire.sends.size() > wire.recvs.size())
    refuse("end", {plan, wire.from, wire.sends[wire.recvs.size()]},
           "the message is never received; rank ", wire.to, " has ", wire.recvs.size(),
           " recvs from this rank");
}

/// Per member of a group, the cells of its row that are for the group.
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

void hold_meetings(const Plan& plan, int group, Pairing& pairing) {
  const std::vector<int>& members = plan.groups[group];
  const auto cells = cells_of(plan, members, group);
  auto longest = std::max_element(cells.begin(), cells.end(),
                                  [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const int guide = members[longest - cells.begin()];
  for (std::size_t k = 0; k < longest->size(); ++k) {
    const Place at{plan, guide, (*longest)[k]};
    Meeting meeting{group, {}};
    for (std::size_t member = 0; member < members.size(); ++member) {
      const int rank = members[member];
      if (k >= cells[member].size())
        refuse("together", at, "rank ", rank, " never joins; all of group ", group, " must");
      const Instruction& other = plan.rows[rank][cells[member][k]];
      if (other.op != at.instruction().op || !same_name(other, at.instruction()))
        refuse("together", at, "rank ", rank, " stands at ", print(other), " instead");
      pairing.ends[rank][cells[member][k]].meeting = static_cast<int>(pairing.meetings.size());
      meeting.cells.push_back(cells[member][k]);
    }
    pairing.meetings.push_back(std::move(meeting));
  }
}

}  // namespace

Pairing pair_up(const Plan& plan) {
  Pairing pairing;
  for (const Row& row : plan.rows) pairing.ends.emplace_back(row.size());
  number_messages(plan, pairing);
  for (const Wire& wire : pairing.wires) check_wire(plan, wire);
  for (int group = 0; group < static_cast<int>(plan.groups.size()); ++group)
    hold_meetings(plan, group, pairing);
  return pairing;
}

}  // namespace paragrad::parallel
