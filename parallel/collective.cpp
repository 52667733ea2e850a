// The lists. r is the member who runs it, N the number of members; chunk numbers count modulo N.
// Chapter 04.
#include "parallel/collective.h"

#include "autograd/error.h"

namespace paragrad::parallel {
namespace {

using enum Exchange::Action;

int modulo(int i, int n) { return ((i % n) + n) % n; }

void check_member(int member, int members) {
  PG_CHECK(member >= 0 && member < members, "member ", member, " of a group of ", members);
}

// [snippet ring]
/// Round k: r sends chunk r + first - k to its right neighbour, and gets from its left neighbour
/// what that one sends by the same rule.
std::vector<Round> around_the_ring(int r, int n, int first, Exchange::Action then) {
  std::vector<Round> rounds;
  for (int k = 0; k + 1 < n; ++k)
    rounds.push_back({{send, modulo(r + 1, n), modulo(r + first - k, n)},
                      {then, modulo(r - 1, n), modulo(r - 1 + first - k, n)}});
  return rounds;
}
// [end snippet]

// [snippet scatter]
/// r sends to every other member that one's chunk, and adds up what it gets for its own. Members
/// before r are added to each other first: ((v[0] + v[1]) + ... + v[r-1]) + v[r] + v[r+1] + ...
Round scatter_and_reduce(int r, int n) {
  Round round;
  for (int k = 1; k < n; ++k) round.push_back({send, modulo(r + k, n), modulo(r + k, n)});
  for (int peer = 0; peer < n; ++peer)
    if (peer != r) round.push_back({peer < r - 1 ? carry : add, peer, r});
  return round;
}
// [end snippet]

/// r sends its chunk to every other member.
Round send_to_all(int r, int n) {
  Round round;
  for (int k = 1; k < n; ++k) round.push_back({send, modulo(r + k, n), r});
  for (int peer = 0; peer < n; ++peer)
    if (peer != r) round.push_back({copy, peer, peer});
  return round;
}

}  // namespace

Range chunk_range(std::int64_t count, int chunk, int chunks) {
  return {count * chunk / chunks, count * (chunk + 1) / chunks};
}

Collective reduce_scatter(AllReduce how, int member, int members) {
  check_member(member, members);
  if (how == AllReduce::ring) return {members, around_the_ring(member, members, -1, add)};
  return {members, {scatter_and_reduce(member, members)}};
}

Collective all_gather(AllReduce how, int member, int members) {
  check_member(member, members);
  if (how == AllReduce::ring) return {members, around_the_ring(member, members, 0, copy)};
  return {members, {send_to_all(member, members)}};
}

// [snippet all_reduce]
Collective all_reduce(AllReduce how, int member, int members) {
  Collective result = reduce_scatter(how, member, members);
  Collective gather = all_gather(how, member, members);
  result.rounds.insert(result.rounds.end(), gather.rounds.begin(), gather.rounds.end());
  return result;
}
// [end snippet]

Collective broadcast(int root, int member, int members) {
  check_member(root, members);
  check_member(member, members);
  int distance = modulo(member - root, members);
  Collective result;
  if (distance > 0) result.rounds.push_back({{copy, modulo(member - 1, members), 0}});
  if (distance + 1 < members) result.rounds.push_back({{send, modulo(member + 1, members), 0}});
  return result;
}

std::vector<int> summation_order(AllReduce how, int members, int chunk) {
  std::vector<int> order;
  for (int i = 0; i < members; ++i)
    order.push_back(how == AllReduce::ring ? modulo(chunk + 1 + i, members) : i);
  return order;
}

}  // namespace paragrad::parallel
