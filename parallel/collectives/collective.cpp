// The lists. r is the member that runs a list, N the number of members; chunks count modulo N.
// A chunk that is shorter than others in its round has fewer pieces. Chapter 04.
#include "parallel/collectives/collective.h"

#include <set>
#include <utility>

#include "autograd/error.h"

namespace plangrad::parallel {

#define PG_DECLARED(name) Collective name##_reduction(const Summing&, int member, int members);
PLANGRAD_REDUCTIONS(PG_DECLARED)
#undef PG_DECLARED

namespace {

using enum Exchange::Action;

int modulo(int i, int n) { return ((i % n) + n) % n; }

void check_member(int member, int members) {
  PG_CHECK(member >= 0 && member < members, "member ", member, " of a group of ", members);
}

// [snippet ring]
/// In round k, r sends chunk r + first - k to its right neighbour, and receives from its left
/// neighbour the chunk that this one sends by the same rule.
std::vector<Round> around_the_ring(int r, int n, int first, Exchange::Action then) {
  std::vector<Round> rounds;
  for (int k = 0; k + 1 < n; ++k)
    rounds.push_back({{send, modulo(r + 1, n), modulo(r + first - k, n)},
                      {then, modulo(r - 1, n), modulo(r - 1 + first - k, n)}});
  return rounds;
}
// [end snippet]

// [snippet scatter]
/// r sends every other member's chunk to that member, and adds up what arrives for its own. Members
/// before r are added to each other first: ((v[0] + v[1]) + ... + v[r-1]) + v[r] + v[r+1] + ...
Round scatter_and_reduce(int r, int n) {
  Round round;
  for (int k = 1; k < n; ++k) round.push_back({send, modulo(r + k, n), modulo(r + k, n)});
  for (int peer = 0; peer < n; ++peer)
    if (peer != r) round.push_back({peer < r - 1 ? carry : add, peer, r});
  return round;
}
// [end snippet]

// [snippet direct]
/// r sends all its values to every other member, and adds up what arrives as above.
Round send_and_reduce(int r, int n) {
  Round round = scatter_and_reduce(r, n);
  for (Exchange& exchange : round) exchange.chunk = 0;
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

// [snippet tree]
/// r adds the sums of its children r + 1, r + 2, r + 4, ..., as far as r is a multiple of twice the
/// distance, and sends the result to its parent. The sum returns the same way.
std::vector<Round> up_and_down_the_tree(int r, int n) {
  std::vector<Round> rounds;
  int distance = 1;
  for (; distance < n && r % (2 * distance) == 0; distance *= 2)
    if (r + distance < n) rounds.push_back({{add, r + distance, 0}});
  if (r > 0) rounds.push_back({{send, r - distance, 0}});
  for (std::size_t up = rounds.size(); up-- > 0;) {
    const Exchange before = rounds[up].front();
    rounds.push_back({{before.action == add ? send : copy, before.peer, 0}});
  }
  return rounds;
}
// [end snippet]

/// A round with one action on every chunk.
Round each_chunk(Exchange::Action action, int peer, int chunks) {
  Round round;
  for (int chunk = 0; chunk < chunks; ++chunk) round.push_back({action, peer, chunk});
  return round;
}

/// Turns a round of a smaller group, whose members these are, into one of the whole group.
Round among(const std::vector<int>& members, Round round) {
  for (Exchange& exchange : round) exchange.peer = members[exchange.peer];
  return round;
}

// [snippet hosts]
/// The members of a host send all their values to its first member. The first members of all hosts
/// sum among themselves, a chunk each, and send the sum back to the others.
Collective by_hosts(const std::vector<int>& hosts, int r, int n) {
  PG_CHECK(hosts.empty() || static_cast<int>(hosts.size()) == n, "the hosts of ", hosts.size(),
           " members are known; the group has ", n);
  std::map<int, std::vector<int>> by_host;
  for (int member = 0; member < n; ++member)
    by_host[hosts.empty() ? 0 : hosts[member]].push_back(member);
  if (by_host.size() == 1) return all_reduce({AllReduce::scatter_reduce}, r, n);
  std::vector<int> first;
  for (const auto& [host, members] : by_host) first.push_back(members.front());
  const std::vector<int>& here = by_host.at(hosts[r]);
  const int chunks = static_cast<int>(first.size());
  if (r != here.front())
    return {chunks,
            {each_chunk(send, here.front(), chunks), each_chunk(copy, here.front(), chunks)}};
  const int own = static_cast<int>(std::find(first.begin(), first.end(), r) - first.begin());
  std::vector<Round> rounds;
  for (std::size_t i = 1; i < here.size(); ++i) rounds.push_back(each_chunk(add, here[i], chunks));
  rounds.push_back(among(first, scatter_and_reduce(own, chunks)));
  rounds.push_back(among(first, send_to_all(own, chunks)));
  for (std::size_t i = 1; i < here.size(); ++i) rounds.push_back(each_chunk(send, here[i], chunks));
  return {chunks, rounds};
}
// [end snippet]

void check_chunks(const Summing& how, int member, int members) {
  check_member(member, members);
  PG_CHECK(how.how == AllReduce::scatter_reduce || how.how == AllReduce::ring, "the reduction ",
           name_of(how.how), " has no part of the sum for each member, which ZeRO needs; use ",
           "--reduction scatter or ring");
}

}  // namespace

Collective tree_reduction(const Summing&, int member, int members) {
  return {1, up_and_down_the_tree(member, members)};
}

Collective hierarchical_reduction(const Summing& how, int member, int members) {
  return by_hosts(how.hosts, member, members);
}

#define PG_NAMED(name) {#name, AllReduce::name},
const std::map<std::string, AllReduce>& reductions() {
  static const std::map<std::string, AllReduce> all{{"scatter", AllReduce::scatter_reduce},
                                                    {"ring", AllReduce::ring},
                                                    PLANGRAD_REDUCTIONS(PG_NAMED)};
  return all;
}
#undef PG_NAMED

std::string name_of(AllReduce how) {
  for (const auto& [name, each] : reductions())
    if (each == how) return name;
  return how == AllReduce::direct ? "direct" : "nccl";
}

Range chunk_range(std::int64_t count, int chunk, int chunks) {
  return {count * chunk / chunks, count * (chunk + 1) / chunks};
}

Collective reduce_scatter(const Summing& how, int member, int members) {
  check_chunks(how, member, members);
  if (how.how == AllReduce::ring)
    return {members, around_the_ring(member, members, -1, add), false};
  return {members, {scatter_and_reduce(member, members)}, false};
}

Collective all_gather(const Summing& how, int member, int members) {
  check_chunks(how, member, members);
  if (how.how == AllReduce::ring) return {members, around_the_ring(member, members, 0, copy)};
  return {members, {send_to_all(member, members)}};
}

// [snippet all_reduce]
Collective all_reduce(const Summing& how, int member, int members) {
  check_member(member, members);
  switch (how.how) {
#define PG_LISTED(name) \
  case AllReduce::name: return name##_reduction(how, member, members);
    PLANGRAD_REDUCTIONS(PG_LISTED)
    default: break;
  }
  if (how.how == AllReduce::direct) return {1, {send_and_reduce(member, members)}};
  Collective result = reduce_scatter(how, member, members);
  Collective gather = all_gather(how, member, members);
  result.rounds.insert(result.rounds.end(), gather.rounds.begin(), gather.rounds.end());
  result.same = true;
  return result;
}
// [end snippet]
#undef PG_LISTED

// ---- pieces ----

AllReduce fitted(AllReduce how, std::int64_t bytes, int members) {
  const bool is_small = members == 2 && bytes <= most_direct_bytes;
  return how == AllReduce::scatter_reduce && is_small ? AllReduce::direct : how;
}

std::vector<Piece> cut(const Collective& collective, std::int64_t count, std::int64_t most) {
  std::vector<Piece> pieces;
  pieces.reserve(8);
  for (const Round& round : collective.rounds) {
    bool more = true;
    for (std::int64_t i = 0; std::exchange(more, false); ++i) {
      for (const Exchange& exchange : round) {
        Range range = chunk_range(count, exchange.chunk, collective.chunks);
        range.begin += i * most;
        if (range.begin >= range.end) continue;
        range.end = std::min(range.end, range.begin + most);
        pieces.push_back({exchange.action, exchange.peer, range});
        more = true;
      }
    }
  }
  return pieces;
}

std::int64_t window_bytes(const Collective& collective, std::int64_t count, std::int64_t element,
                          std::int64_t piece_bytes) {
  std::vector<std::int64_t> receives;  // bytes of scratch of each
  std::set<int> from;
  bool carries = false;
  for (const Piece& piece : cut(collective, count, piece_bytes / element)) {
    if (piece.action == Exchange::Action::send) continue;
    from.insert(piece.peer);
    carries |= piece.action == Exchange::Action::carry;
    receives.push_back(piece.action == Exchange::Action::copy ? 0 : piece.range.size() * element);
  }
  const std::size_t most = pieces_in_flight * from.size() + (carries ? 1 : 0);
  std::int64_t now = 0, largest = 0;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    now += receives[i] - (i >= most ? receives[i - most] : 0);
    largest = std::max(largest, now);
  }
  return largest;
}

}  // namespace plangrad::parallel
