// The orders of a beam have equally many cells, and are compared by the least seconds that they
// lead to.
// Chapter 06.
#include "parallel/planner/order_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_set>

#include "autograd/error.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {
namespace {

/// Seconds before each cell and after it, at least, by stream and microbatch.
struct LeastTimes {
  std::vector<double> before, after;
};

/// Follows the edges between cells, which begin at cells that stand before: from the microbatch
/// before, from the input, and to a forward from the cell that makes room for it.
LeastTimes least_times(const OrderTask& task, const std::vector<Stream>& streams) {
  const int count = task.microbatches, stages = task.stages();
  const int all = static_cast<int>(streams.size());
  std::vector<std::tuple<int, int, double>> edges;  // from, to, seconds of the message
  auto enter = [&](int i, int micro) {
    const Stream& each = streams[i];
    const int cell = i * count + micro;
    if (micro > 0) edges.emplace_back(cell - 1, cell, 0);
    if (each.input >= 0) edges.emplace_back(each.input * count + micro, cell, each.delay);
    const double room = std::floor(task.most_of(each.rank) / task.kept_of(each.stage) + 1e-9);
    if (each.letter == 'F' && micro >= room)
      edges.emplace_back((all - stages + i) * count + micro - static_cast<int>(room), cell, 0);
  };
  for (int micro = 0; micro < count; ++micro) {
    for (int i = 0; i < stages; ++i) enter(i, micro);
    for (int i = 2 * stages - 1; i >= stages; --i) enter(i, micro);  // backwards
    for (int i = 2 * stages; i < all; ++i) enter(i, micro);
  }
  LeastTimes times{std::vector<double>(all * count, 0), std::vector<double>(all * count, 0)};
  auto seconds = [&](int cell) { return streams[cell / count].seconds; };
  for (const auto& [from, to, message] : edges)
    times.before[to] = std::max(times.before[to], times.before[from] + seconds(from) + message);
  std::ranges::reverse(edges);
  for (const auto& [from, to, message] : edges)
    times.after[from] = std::max(times.after[from], message + seconds(to) + times.after[to]);
  return times;
}

/// An order that was begun, and a hash of how many cells of each stream it has.
struct BeamState {
  PartialOrder order;
  std::uint64_t hash = 0;
};

/// A state with one cell more; it is made if the beam keeps it.
struct BeamChild {
  double bound = 0, later = 0;  ///< least seconds; the sum of all ranks' ends if none waits again
  const BeamState* parent = nullptr;
  int stream = 0;
  std::uint64_t hash = 0;

  bool operator<(const BeamChild& other) const {
    return std::tie(bound, later) < std::tie(other.bound, other.later);
  }
};

class Beam {
 public:
  /// All must outlive it.
  Beam(const OrderTask& task, const std::vector<Stream>& streams, const LeastTimes& times)
      : task_(task), streams_(streams), times_(times) {}

  /// Adds the children of a state that may take less than `most` seconds.
  void expand(const BeamState& state, double most, std::vector<BeamChild>& children) const;
  /// Makes the best children: `width` of them, each with other numbers of cells.
  static std::vector<BeamState> best_of(std::vector<BeamChild>& children, std::size_t width);

 private:
  BeamChild child(const BeamState& state, int stream, double start) const;

  const OrderTask& task_;
  const std::vector<Stream>& streams_;
  const LeastTimes& times_;
};

BeamChild Beam::child(const BeamState& state, int stream, double start) const {
  const int count = task_.microbatches, cell = stream * count + state.order.done(stream);
  const Stream& added = streams_[stream];
  const double end = start + added.seconds;
  std::vector<double> rest(task_.ranks(), 0), tail(task_.ranks(), PartialOrder::never);
  for (int i = 0; i < std::ssize(streams_); ++i) {
    const int left = count - state.order.done(i) - (i == stream), rank = streams_[i].rank;
    rest[rank] += left * streams_[i].seconds;
    if (left > 0) tail[rank] = std::min(tail[rank], times_.after[i * count + count - 1]);
  }
  // A number for each cell, of which sums rarely agree by chance.
  std::uint64_t hash = (cell + 1) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
  BeamChild found{end + times_.after[cell], 0, &state, stream, state.hash + (hash ^ (hash >> 32))};
  for (int rank = 0; rank < task_.ranks(); ++rank) {
    const double free = rank == added.rank ? end : std::max(state.order.free(rank), start);
    if (rest[rank] > 0) found.bound = std::max(found.bound, free + rest[rank] + tail[rank]);
    found.later += free + rest[rank];
  }
  return found;
}

void Beam::expand(const BeamState& state, double most, std::vector<BeamChild>& children) const {
  std::vector<double> starts;
  // A rank that waits until `limit` could run a cell meanwhile that takes no room: the order with
  // that cell there is as short.
  double limit = PartialOrder::never;
  for (int i = 0; i < std::ssize(streams_); ++i) {
    const Stream& each = streams_[i];
    starts.push_back(state.order.start(i));
    const bool takes_room = each.letter == 'F' && task_.most_of(each.rank) < PartialOrder::never;
    if (!takes_room && each.seconds > 0) limit = std::min(limit, starts[i] + each.seconds);
  }
  for (int i = 0; i < std::ssize(streams_); ++i) {
    if (starts[i] < state.order.now() || starts[i] >= limit) continue;
    const BeamChild found = child(state, i, starts[i]);
    if (found.bound < most) children.push_back(found);
  }
}

std::vector<BeamState> Beam::best_of(std::vector<BeamChild>& children, std::size_t width) {
  std::stable_sort(children.begin(), children.end());
  std::unordered_set<std::uint64_t> known;
  std::vector<BeamState> states;
  for (const BeamChild& each : children) {
    if (states.size() == width) break;
    if (!known.insert(each.hash).second) continue;
    states.push_back({each.parent->order, each.hash});
    states.back().order.add(each.stream);
  }
  return states;
}

}  // namespace

double least_seconds(const OrderTask& task) {
  check(task);
  const std::vector<Stream> streams = streams_of(task);
  const LeastTimes times = least_times(task, streams);
  std::vector<std::vector<int>> cells(task.ranks());
  for (int cell = 0; cell < std::ssize(times.before); ++cell)
    cells[streams[cell / task.microbatches].rank].push_back(cell);
  double least = 0;
  for (std::vector<int>& all : cells) {
    std::ranges::sort(all, std::greater(), [&](int cell) { return times.before[cell]; });
    for (const int last : all) {
      double sum = times.after[last];
      for (const int cell : all) {
        if (times.after[cell] < times.after[last]) continue;
        sum += streams[cell / task.microbatches].seconds;
        least = std::max(least, times.before[cell] + sum);
      }
    }
  }
  return least;
}

FoundOrder search_order(const OrderTask& task, int width, const OrderProgress& progress) {
  check(task);
  const double cells = 1.0 * task.stages() * task.microbatches * (task.split ? 3 : 2);
  PG_CHECK(cells <= most_ordered_cells, "an update of ", cells, " cells is too large to search; ",
           most_ordered_cells, " are possible. Use fewer microbatches, or the list scheduler");
  FoundOrder best{{}, PartialOrder::never, least_seconds(task)};
  auto take = [&](Plan rows) {
    const double seconds = simulate(verify(completed(rows)), task.costs).makespan();
    if (seconds < best.seconds) best.seconds = seconds, best.rows = std::move(rows);
  };
  std::vector<int> as_1f1b;
  for (int rank = 0; rank < task.ranks(); ++rank) as_1f1b.push_back(task.ranks() - rank);
  for (const char* letters : {"BIFW", "FBIW"})
    for (const auto& ahead : {std::vector<int>(), as_1f1b}) take(list_order(task, letters, ahead));

  const std::vector<Stream> streams = streams_of(task);
  const LeastTimes times = least_times(task, streams);
  const Beam beam(task, streams, times);
  for (int kept = std::min(width, 8); best.seconds > best.bound * (1 + 1e-9);) {
    std::vector<BeamState> states{{PartialOrder(task, streams)}};
    for (int done = 0; done < cells; ++done) {
      if (progress) progress(done, static_cast<int>(cells), best);
      std::vector<BeamChild> children;
      for (const BeamState& state : states) beam.expand(state, best.seconds * (1 - 1e-9), children);
      best.states += children.size();
      states = Beam::best_of(children, kept);
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(states.size(), 8); ++i)
      take(states[i].order.rows());
    if (kept == width) break;
    kept = std::min(width, 4 * kept);
  }
  return best;
}

}  // namespace plangrad::parallel
