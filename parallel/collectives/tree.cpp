// tree: pairs of members add up, then pairs of pairs. It sends the data twice over each of its N-1
// edges. Not here: when it is chosen. Chapter 10.
#include "parallel/collectives/collective.h"

namespace plangrad::parallel {

// [snippet tree]
/// r adds the sums of its children r + 1, r + 2, r + 4, ..., as far as r is a multiple of twice the
/// distance, and sends the result to its parent. The sum returns the same way.
static Collective up_and_down_the_tree(const Summing&, int r, int n) {
  using enum Exchange::Action;
  std::vector<Round> rounds;
  int distance = 1;
  for (; distance < n && r % (2 * distance) == 0; distance *= 2)
    if (r + distance < n) rounds.push_back({{add, r + distance, 0}});
  if (r > 0) rounds.push_back({{send, r - distance, 0}});
  for (std::size_t up = rounds.size(); up-- > 0;) {
    const Exchange before = rounds[up].front();
    rounds.push_back({{before.action == add ? send : copy, before.peer, 0}});
  }
  return {1, rounds};
}

// A search adds up the seconds of rounds, but a tree's pieces are on several levels at once.
ReductionEntry tree_reduction() {
  return {.name = "tree", .all_reduce = up_and_down_the_tree, .is_searched = false};
}
// [end snippet]

}  // namespace plangrad::parallel
