// Collectives: sums and gathers over the ranks of a group, as lists of exchanges.
// Not here: how the bytes move (transport), and who carries out a list (collective_run).
// Chapter 04; Patarasuk and Yuan 2009 (ring), Markov et al. 2022 (scatter-reduce-allgather).
#pragma once

#include <cstdint>
#include <vector>

namespace paragrad::parallel {

/// Both send 2 (N-1)/N of the data from each of N members. They differ in the order of the sums:
///   scatter_reduce: 0, 1, ..., N-1 for every chunk, as a serial loop over the members adds
///   ring:           c+1, c+2, ..., N-1, 0, ..., c for chunk c, the order in which it travels
enum class AllReduce { scatter_reduce, ring };

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
};

/// Elements of a chunk: the first is i * count / chunks, rounded down.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
Range chunk_range(std::int64_t count, int chunk, int chunks);

/// Every member ends with the sum over all members.
Collective all_reduce(AllReduce how, int member, int members);
/// Member i ends with chunk i of the sum; its other chunks are then without meaning.
Collective reduce_scatter(AllReduce how, int member, int members);
/// Member i begins with chunk i; every member ends with all chunks.
Collective all_gather(AllReduce how, int member, int members);
/// Every member ends with what `root` began with. A chain: root, root + 1, ...
Collective broadcast(int root, int member, int members);

/// The order in which members' values are added to make chunk `chunk`, from left to right:
///   ((v[order[0]] + v[order[1]]) + v[order[2]]) + ..., each sum rounded to the tensor's type
std::vector<int> summation_order(AllReduce how, int members, int chunk);

}  // namespace paragrad::parallel
