// Collectives: sums and gathers over the ranks of a group, as lists of exchanges.
// Not here: how the bytes move (transport), and who carries out a list (collective_run).
// Chapter 04; Patarasuk and Yuan 2009 (ring), Markov et al. 2022 (scatter-reduce-allgather).
//
// The room parallel/collectives makes sums and gathers of messages:
// collective.h       lists of exchanges: scatter-reduce-allgather, ring, tree, by hosts
// collective_run.h   one member's list, carried on without ever waiting; the interface of codecs
// The order of additions is that of the lists, so sums have the same bits whatever the timing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace paragrad::parallel {

/// Who adds what, and in which order:
///   scatter_reduce: member c adds up chunk c, 0, 1, ..., N-1, as a serial loop over members does
///   ring:           c+1, c+2, ..., N-1, 0, ..., c for chunk c, the order in which it travels
///   tree:           pairs, then pairs of pairs; member 0 has the sum first
///   hierarchical:   members of a host, then scatter_reduce over the hosts' first members
///   by_transport:   in an order of the transport's own, by no list (Transport::all_reduce)
/// The first two send 2 (N-1)/N of the data from each of N members. A tree sends it twice over each
/// of its N-1 edges; hierarchical twice inside a host, and 2 (H-1)/H of it from each of H hosts.
enum class AllReduce { scatter_reduce, ring, tree, hierarchical, by_transport };
/// Those that have lists, as users type them.
const std::map<std::string, AllReduce>& reductions();
std::string name_of(AllReduce how);

/// How a group's sums are made.
struct Summing {
  AllReduce how = AllReduce::scatter_reduce;
  std::vector<int> hosts = {};  ///< by member, any numbers; empty: all on one host
};

/// What a member does with one chunk. Of two exchanges of the same values, the first in the list
/// goes first, except that a chunk may be sent to several members at once.
struct Exchange {
  enum class Action {
    send,   ///< chunk -> peer
    copy,   ///< chunk = arrived
    add,    ///< chunk = chunk + arrived
    carry,  ///< what arrives next = arrived + what arrives next
  };
  Action action = Action::send;
  int peer = 0;   ///< a member of the group, counted from 0
  int chunk = 0;  ///< see chunk_range

  friend bool operator==(const Exchange&, const Exchange&) = default;
};

/// Exchanges that are under way together, piece by piece: first piece of each, second of each, ...
using Round = std::vector<Exchange>;

/// One member's part.
struct Collective {
  int chunks = 1;
  std::vector<Round> rounds;
  bool same = true;  ///< all members end with the same values
};

/// Elements of a chunk: the first is i * count / chunks, rounded down.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
Range chunk_range(std::int64_t count, int chunk, int chunks);
/// The intersection of two ranges; its size is 0 or less where they have nothing in common.
inline Range common(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// Every member ends with the sum over all members.
Collective all_reduce(const Summing& how, int member, int members);
/// Member i ends with chunk i of the sum; its other chunks are then without meaning.
/// throws: Error if sums are made by a tree or by hosts, which have no chunk for each member
Collective reduce_scatter(const Summing& how, int member, int members);
/// Member i begins with chunk i; every member ends with all chunks.
/// throws: Error as reduce_scatter
Collective all_gather(const Summing& how, int member, int members);

/// One exchange of one piece of a chunk.
struct Piece {
  Exchange::Action action = Exchange::Action::send;
  int peer = 0;
  Range range;  ///< of the buffer
};

/// A member's list for a buffer of `count` elements, in pieces of at most `most`: within a round,
/// the first piece of every chunk, then the second of each...
std::vector<Piece> cut(const Collective& collective, std::int64_t count, std::int64_t most);

}  // namespace paragrad::parallel
