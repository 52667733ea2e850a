// A chunk that is shorter than others in its round has fewer pieces.
// Chapter 04.
#include "parallel/collectives/pieces.h"

#include <set>
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
