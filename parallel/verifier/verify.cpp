// verify: all rules, one after the other, and the facts. Where the rules are:
//
//   rule            is broken by                                                     file
//   shape           a header, or fields of an instruction, that make no sense        shape
//   input           a computation whose input is not here and not on its way         replay
//   same version    a backward that reads another version than its forward           replay
//   drift           with drift: one that reads a version that is too much newer      replay
//   stash, once     activations that were dropped; a microbatch that passes twice    replay
//   turn            the turn of a forward that has run                               replay
//   send, drop      a value that is not here                                         replay
//   version         a version that is not here when it is read                       versions
//   gathered        a version of which only a shard is here                          versions
//   order           steps that do not follow each other                              versions
//   sum, sum order  a sum that lacks what its name says, or is not added in order    sums
//   norm            a step without its norm, a norm without all sums                 replay
//   match           ends of a message that name different values                     pairing
//   together        members of a group that do not meet                              pairing
//   end             microbatches, receives or steps that are missing                 several
//   leak            a value that is left over                                        several
//   driven          a message-driven row whose forwards and backwards are not two     shape
//                   lines of work of one stage
//   repeat          an endless plan's body that does not end as it began            repeat
//   hang            ranks that wait for each other                                   hang
//
// Not here: time (simulate) and numbers (engine). Chapter 06.
#include "parallel/verifier/verify.h"

#include <fmt/ranges.h>

#include "parallel/verifier/replay.h"

namespace plangrad::parallel {

std::string list(const std::vector<int>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

void refuse_text(const char* rule, const Place& place, const std::string& what) {
  const int size = static_cast<int>(place.plan.rows[place.rank].size());
  const bool at_end = place.index < 0 || place.index == size;
  const int index = at_end ? size : place.index;
  std::string cell = at_end ? "the end of its row" : print(place.instruction());
  throw PlanError(rule, place.rank, place.index,
                  text(rule, ": rank ", place.rank, ", ", cell, ": ", what, "\n",
                       mark(place.plan, place.rank, index)));
}

static std::map<std::string, int> count_messages(const Plan& plan, const Pairing& pairing) {
  std::map<std::string, int> messages;
  for (const Wire& wire : pairing.wires)
    for (int cell : wire.sends) ++messages[operation(plan.rows[wire.from][cell]).letters];
  for (const Meeting& meeting : pairing.meetings)
    ++messages[name_of(plan.rows[plan.groups[meeting.group][0]][meeting.cells[0]].op)];
  return messages;
}

static std::vector<std::string> find_fresh_reads(const Plan& plan) {
  std::vector<std::string> fresh(plan.per_step, std::string(plan.stages, '1'));
  for (const Row& row : plan.rows)
    for (const Instruction& x : row)
      if (begins_pass(x) && x.version < plan.made_by(x.micro) - 1)
        fresh[x.micro % plan.per_step][x.stage] = '0';
  return fresh;
}

static Facts facts_of(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows) {
  Facts facts;
  for (const Replay& row : rows) row.add_to(facts);
  facts.fresh_reads = find_fresh_reads(plan);
  facts.messages = count_messages(plan, pairing);
  facts.capacity = smallest_capacity(plan, pairing, rows);
  return facts;
}

// [snippet verify]
VerifiedPlan verify(Plan plan) {
  check_shape(plan);
  check_driven(plan);
  const std::vector<std::set<int>> held = held_stages(plan);
  const std::vector<int> tied = tied_versions(plan);
  Passages passages(plan);
  std::vector<Replay> rows;
  rows.reserve(plan.ranks());
  for (int rank = 0; rank < plan.ranks(); ++rank)
    rows.emplace_back(plan, rank, passages, held[rank], tied).run();
  const Pairing pairing = pair_up(plan);
  check_meetings(plan, pairing, rows);
  passages.check_end();
  for (const Replay& row : rows) row.versions().check_end();
  for (const Replay& row : rows) row.check_leaks();
  check_repeat(plan, pairing, rows);
  Facts facts = facts_of(plan, pairing, rows);
  return VerifiedPlan(std::move(plan), std::move(facts));
}
// [end snippet]

}  // namespace plangrad::parallel
