// The lists. r is the member that runs a list, N the number of members; chunks count modulo N.
// A chunk that is shorter than others in its round has fewer pieces. Chapter 04.
#include "parallel/collectives/collective.h"

#include <set>
#include <utility>

#include "autograd/error.h"

namespace plangrad::parallel {

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
/// r sends all its values to every other member, and adds up in the order of scatter_and_reduce.
Collective send_and_reduce(const Summing&, int r, int n) {
  Round round = scatter_and_reduce(r, n);
  for (Exchange& exchange : round) exchange.chunk = 0;
  return {1, {round}};
}
// [end snippet]

/// r sends its chunk to every other member.
Collective send_to_all(const Summing&, int r, int n) {
  Round round;
  for (int k = 1; k < n; ++k) round.push_back({send, modulo(r + k, n), r});
  for (int peer = 0; peer < n; ++peer)
    if (peer != r) round.push_back({copy, peer, peer});
  return {n, {round}};
}

Collective scatter_chunks(const Summing&, int r, int n) {
  return {n, {scatter_and_reduce(r, n)}, false};
}
Collective reduce_in_ring(const Summing&, int r, int n) {
  return {n, around_the_ring(r, n, -1, add), false};
}
Collective gather_in_ring(const Summing&, int r, int n) {
  return {n, around_the_ring(r, n, 0, copy)};
}

}  // namespace

#define PG_DECLARED(name) ReductionEntry name##_reduction();
PLANGRAD_REDUCTIONS(PG_DECLARED)

#define PG_LISTED(name) name##_reduction(),
/// The entries of all kinds, in the order of the kinds.
static const std::vector<ReductionEntry>& entries() {
  static const std::vector<ReductionEntry> all{
      {.name = "scatter", .reduce_scatter = scatter_chunks, .all_gather = send_to_all},
      {.name = "ring", .reduce_scatter = reduce_in_ring, .all_gather = gather_in_ring},
      PLANGRAD_REDUCTIONS(PG_LISTED){.name = "direct", .all_reduce = send_and_reduce},
      {.name = "nccl"}};
  return all;
}

const ReductionEntry& entry_of(AllReduce how) { return entries()[static_cast<std::size_t>(how)]; }

const std::map<std::string, AllReduce>& reductions() {
  static const std::map<std::string, AllReduce> all = [] {
    std::map<std::string, AllReduce> by_name;
    for (int how = 0; how < static_cast<int>(AllReduce::direct); ++how)
      by_name[entries()[how].name] = AllReduce{how};
    return by_name;
  }();
  return all;
}

/// The entry of a kind that has a part of the sum for each member.
static const ReductionEntry& entry_with_parts(AllReduce how, int member, int members) {
  check_member(member, members);
  if (entry_of(how).has_parts()) return entry_of(how);
  std::string others;
  for (const ReductionEntry& each : entries())
    if (each.has_parts()) others += (others.empty() ? "" : " or ") + std::string(each.name);
  throw autograd::Error("the reduction " + name_of(how) + " has no part of the sum for each " +
                        "member, which ZeRO needs; use --reduction " + others);
}

Collective reduce_scatter(const Summing& how, int member, int members) {
  return entry_with_parts(how.how, member, members).reduce_scatter(how, member, members);
}

Collective all_gather(const Summing& how, int member, int members) {
  return entry_with_parts(how.how, member, members).all_gather(how, member, members);
}

// [snippet all_reduce]
Collective all_reduce(const Summing& how, int member, int members) {
  check_member(member, members);
  if (const ListMaker whole = entry_of(how.how).all_reduce) return whole(how, member, members);
  Collective result = reduce_scatter(how, member, members);
  Collective gather = all_gather(how, member, members);
  result.rounds.insert(result.rounds.end(), gather.rounds.begin(), gather.rounds.end());
  result.same = true;
  return result;
}
// [end snippet]

Range chunk_range(std::int64_t count, int chunk, int chunks) {
  return {count * chunk / chunks, count * (chunk + 1) / chunks};
}

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
