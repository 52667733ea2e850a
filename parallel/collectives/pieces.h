// Pieces: how a list of exchanges is cut into messages, how many of them are in flight, and which
// list a small sum takes. What runs lists (collective_run.h) and what simulates them
// (simulation/meetings.h) ask here. Not here: the lists (collective.h). Chapter 04.
#pragma once

#include "parallel/collectives/collective.h"

namespace plangrad::parallel {

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
  Range range;  ///< of the buffer
};

/// Cuts a member's list for a buffer of `count` elements into pieces of at most `most` elements:
/// within a round, the first piece of every chunk, then the second of each...
std::vector<Piece> cut(const Collective& collective, std::int64_t count, std::int64_t most);

/// Bytes of the pieces that a run of the list holds at most for sums, where `count` elements of
/// `element` bytes are added up: they are in flight, or wait for their turn.
std::int64_t window_bytes(const Collective& collective, std::int64_t count, std::int64_t element,
                          std::int64_t piece_bytes = default_piece);

}  // namespace plangrad::parallel
