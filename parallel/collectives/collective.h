// Collectives: sums and gathers over the ranks of a group, as lists of exchanges. Pieces: the
// messages that a list becomes in runs (collective_run) and simulations (simulation/meetings).
// Not here: how the bytes move (transport), and how a list is run.
// Chapter 04; Patarasuk and Yuan 2009 (ring), Markov et al. 2022 (scatter-reduce-allgather).
//
// The room parallel/collectives makes sums and gathers of messages:
// collective.h       lists of exchanges: scatter-reduce-allgather, ring, tree, by hosts; pieces
// collective_run.h   runs one member's list without ever waiting; the interface of codecs
// The lists fix the order of additions, so sums have the same bits whatever the timing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plangrad::parallel {

// Reductions beside scatter_reduce and ring: a new one is a file, with its NAME_reduction(), and a
// line here, which says what adds up first.
#define PLANGRAD_REDUCTIONS(REDUCTION)                                                 \
  REDUCTION(tree)         /* pairs, then pairs of pairs; member 0 has the sum first */ \
  REDUCTION(hierarchical) /* members of a host, then the hosts' first members */

#define PG_NAME(name) , name
/// The kinds of all-reduce: which member adds what, and in which order.
///   scatter_reduce: member c adds up chunk c, 0, 1, ..., N-1, as a serial loop over members does
///   direct:         each member adds up all chunks in that order, so the sum has the same bits
///   ring:           c+1, c+2, ..., N-1, 0, ..., c for chunk c, the order in which it travels
///   by_transport:   the transport chooses the order, without a list (Transport::together)
///   the others:     see PLANGRAD_REDUCTIONS
/// scatter_reduce and ring send 2 (N-1)/N of the data from each of N members, direct N-1 times the
/// data, in one round.
enum class AllReduce { scatter_reduce, ring PLANGRAD_REDUCTIONS(PG_NAME), direct, by_transport };
#undef PG_NAME

/// The kinds that users choose and that have lists, by the names that they type.
const std::map<std::string, AllReduce>& reductions();

/// The kind of a group's sums, and the hosts of its members.
struct Summing {
  AllReduce how = AllReduce::scatter_reduce;
  std::vector<int> hosts = {};  ///< each member's host, any numbers; empty: all on one host
};

/// One member's exchange of one chunk with a peer. Exchanges of the same values run in the order of
/// the list, except that a chunk may be sent to several members at once.
struct Exchange {
  enum class Action {
    send,   ///< chunk -> peer
    copy,   ///< chunk = arrived
    add,    ///< chunk = chunk + arrived
    carry,  ///< the next arrival = arrived + the next arrival
  };
  Action action = Action::send;
  int peer = 0;   ///< a member of the group, counted from 0
  int chunk = 0;  ///< see chunk_range
};

/// Exchanges that run side by side, piece by piece: first piece of each, second of each, ...
using Round = std::vector<Exchange>;

/// One member's part of a collective.
struct Collective {
  int chunks = 1;
  std::vector<Round> rounds;
  bool same = true;  ///< all members end with the same values
};

/// Makes a member's list: all_reduce(), reduce_scatter() or all_gather(), or that of one kind.
using ListMaker = Collective (*)(const Summing&, int member, int members);

/// All that others know about a kind. Its file defines a function that gives it: tree_reduction().
struct ReductionEntry {
  const char* name;                    ///< in flags and messages
  ListMaker all_reduce = nullptr;      ///< null: reduce_scatter, then all_gather
  ListMaker reduce_scatter = nullptr;  ///< null: the sum has no part for each member
  ListMaker all_gather = nullptr;      ///< null where reduce_scatter is
  bool by_hosts = false;               ///< the lists depend on the hosts of the members
  bool is_searched = true;             ///< a search for plans tries it

  bool has_parts() const { return reduce_scatter != nullptr; }
};
const ReductionEntry& entry_of(AllReduce how);
/// The name of a kind in flags and messages.
inline std::string name_of(AllReduce how) { return entry_of(how).name; }

/// The elements from `begin` to before `end`.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
/// The elements of a chunk; the first is chunk * count / chunks, rounded down.
Range chunk_range(std::int64_t count, int chunk, int chunks);
/// The intersection of two ranges; its size is 0 or less if they have no element in common.
inline Range common(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// Lists an all-reduce: every member ends with the sum over all members.
Collective all_reduce(const Summing& how, int member, int members);
/// Lists a reduce-scatter: member i ends with chunk i of the sum; its other chunks are undefined.
/// throws: Error if the kind has no part for each member
Collective reduce_scatter(const Summing& how, int member, int members);
/// Lists an all-gather: member i begins with chunk i; every member ends with all chunks.
/// throws: Error as reduce_scatter() does
Collective all_gather(const Summing& how, int member, int members);

// ---- pieces ----

/// Sums of two members up to this size are made in one round.
inline constexpr std::int64_t most_direct_bytes = 1 << 20;
/// The kind by which `bytes` are summed where `how` is asked for: direct instead of scatter_reduce
/// for small sums of two members, which send the same bytes in one round instead of two. The sum
/// has the same bits, unless its messages are encoded.
AllReduce fitted(AllReduce how, std::int64_t bytes, int members);

inline constexpr std::int64_t default_piece = 256 * 1024;  ///< bytes
/// At most this many pieces are in flight to all members together, and as many from each member.
inline constexpr int pieces_in_flight = 4;

/// One exchange of one piece of a chunk.
struct Piece {
  Exchange::Action action = Exchange::Action::send;
  int peer = 0;
  Range range;  ///< the piece's place in the buffer
};

/// Cuts a member's list for a buffer of `count` elements into pieces of at most `most` elements:
/// within a round, the first piece of every chunk, then the second of each...
std::vector<Piece> cut(const Collective& collective, std::int64_t count, std::int64_t most);

/// Bytes of the pieces that a run of the list holds at most for sums, where `count` elements of
/// `element` bytes are added up: they are in flight, or wait for their turn.
std::int64_t window_bytes(const Collective& collective, std::int64_t count, std::int64_t element,
                          std::int64_t piece_bytes = default_piece);

}  // namespace plangrad::parallel
