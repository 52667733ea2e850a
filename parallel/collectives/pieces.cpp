// A chunk that is shorter than others in its round has fewer pieces.
// Chapter 04.
#include "parallel/collectives/pieces.h"

#include <utility>

namespace plangrad::parallel {

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

}  // namespace plangrad::parallel
