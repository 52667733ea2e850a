// Carry out: all members' lists of a collective on one thread, for the serial interpreter, and for
// tests with symbols in place of numbers.
// Not here: messages (collective_run.h). Chapter 05.
#pragma once

#include <deque>
#include <utility>

#include "autograd/error.h"
#include "parallel/collectives/collective.h"

namespace plangrad::parallel {

// [snippet carry_out]
/// Runs each member until it needs a piece that has not been sent yet, and then the next member.
///   send(member, piece) -> what arrives;   take(member, piece, arrived)
template <class Send, class Take>
void carry_out(const std::vector<std::vector<Piece>>& lists, Send send, Take take) {
  using Mail = decltype(send(0, lists[0][0]));
  std::map<std::pair<int, int>, std::deque<Mail>> mail;  // by (sender, receiver)
  std::vector<std::size_t> next(lists.size(), 0);
  bool moved = true;
  while (std::exchange(moved, false))
    for (int member = 0; member < static_cast<int>(lists.size()); ++member)
      for (; next[member] < lists[member].size(); ++next[member], moved = true) {
        const Piece& piece = lists[member][next[member]];
        if (piece.action == Exchange::Action::send) {
          mail[{member, piece.peer}].push_back(send(member, piece));
          continue;
        }
        auto& arrived = mail[{piece.peer, member}];
        if (arrived.empty()) break;
        take(member, piece, arrived.front());
        arrived.pop_front();
      }
  for (std::size_t member = 0; member < lists.size(); ++member)
    PG_CHECK(next[member] == lists[member].size(), "member ", member, " waits for ever");
}
// [end snippet]

}  // namespace plangrad::parallel
