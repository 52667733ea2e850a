// The search for a short order: the orders of a beam have equally many cells, and are compared by
// the least seconds that they lead to. Not here: how long a plan takes, which the simulator says.
// Chapter 06; Carlier 1982 (order.h).
#include "parallel/planner/order.h"

#include <cmath>
#include <tuple>
#include <unordered_map>

#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {
namespace {

/// The streams of an update, and for each cell, by stream and microbatch, the seconds that are
/// before it and after it at least.
struct OrderGraph {
  explicit OrderGraph(const OrderTask& task);

  const OrderTask& task;
  const std::vector<Stream> streams;
  std::vector<double> before, after;
};

/// Seconds from all gradients of the first and the last stage to the sum of what they share.
double shared_sum_seconds(const OrderTask& task) {
  Plan plan = task.without_cells();
  const auto [low, high] = std::minmax(task.place.front(), task.place.back());
  if (plan.tied.empty() || low == high) return 0;
  plan.groups = {{low, high}};
  Instruction sum{Op::reduce, task.stages()};
  sum.what = Value::gradient_sum, sum.peer = 0;
  return duration(sum, low, plan, task.costs);
}

/// Follows the edges between cells, which begin at cells that stand before: from the microbatch
/// before, from the input, and to a forward from the cell that makes room for it.
OrderGraph::OrderGraph(const OrderTask& task) : task(task), streams(streams_of(task)) {
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
  before.assign(all * count, 0), after = before;
  const Plan plan = task.without_cells();
  // A stage's update follows its last gradient, perhaps while another stage's is still missing.
  for (int stage = 0; stage < stages; ++stage) {
    const Instruction update{.op = Op::step, .stage = stage};
    const double sum = std::ranges::count(plan.tied, stage) > 0 ? shared_sum_seconds(task) : 0;
    after[(all - stages + stage + 1) * count - 1] =
        std::max(sum, duration(update, task.place[stage], plan, task.costs));
  }
  auto seconds = [&](int cell) { return streams[cell / count].seconds; };
  for (const auto& [from, to, message] : edges)
    before[to] = std::max(before[to], before[from] + seconds(from) + message);
  std::ranges::reverse(edges);
  for (const auto& [from, to, message] : edges)
    after[from] = std::max(after[from], message + seconds(to) + after[to]);
}

/// An order that was begun; what an update that begins so takes at least; a hash of how many cells
/// of each stream it has; and the sum of what is after its cells, which is large if those that
/// others wait for came first.
struct BeamState {
  PartialOrder order;
  double bound = 0;
  std::uint64_t hash = 0;
  double after = 0;
};

/// A state with one cell more; it is made if the beam keeps it.
struct BeamChild {
  double bound = 0, later = 0;  ///< least seconds; the sum of all ranks' ends if none waits again
  const BeamState* parent = nullptr;
  int stream = 0;
  std::uint64_t hash = 0;
  double after = 0;
  int turn = 0;           ///< its place among those with as many cells of each stream
  bool is_known = false;  ///< whether it is as good as the one before it there

  bool operator<(const BeamChild& other) const {
    return std::tie(bound, later, other.after) < std::tie(other.bound, other.later, after);
  }
};

/// Adds the next cell of a stream to a state; `starts` has the seconds from which those of all
/// streams can run.
BeamChild child_of(const BeamState& state, int stream, const std::vector<double>& starts,
                   const OrderGraph& graph) {
  const int count = graph.task.microbatches, cell = stream * count + state.order.done(stream);
  const int ranks = graph.task.ranks();
  const Stream& added = graph.streams[stream];
  const double start = starts[stream], end = start + added.seconds;
  // A number for each cell, of which sums rarely agree by chance.
  std::uint64_t hash = (cell + 1) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
  BeamChild found{
      end + graph.after[cell],        0, &state, stream, state.hash + (hash ^ (hash >> 32)),
      state.after + graph.after[cell]};
  std::vector<double> rest(ranks, 0), after(ranks, PartialOrder::never);
  for (int i = 0; i < std::ssize(graph.streams); ++i) {
    const Stream& each = graph.streams[i];
    const int done = state.order.done(i) + (i == stream);
    if (done == count) continue;
    rest[each.rank] += (count - done) * each.seconds;
    after[each.rank] = std::min(after[each.rank], graph.after[i * count + count - 1]);
    if (i == stream || starts[i] == PartialOrder::never) continue;
    const double next = std::max(starts[i], each.rank == added.rank ? end : start);
    found.bound = std::max(found.bound, next + each.seconds + graph.after[i * count + done]);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const double free = rank == added.rank ? end : std::max(state.order.free(rank), start);
    if (rest[rank] > 0) found.bound = std::max(found.bound, free + rest[rank] + after[rank]);
    found.later += free + rest[rank];
  }
  return found;
}

/// Adds the children of a state that may take less than `most` seconds.
void expand(const BeamState& state, double most, const OrderGraph& graph,
            std::vector<BeamChild>& children) {
  std::vector<double> starts;
  // A rank that waits until `limit` could run a cell meanwhile that takes no room: the order with
  // that cell there is as short.
  double limit = PartialOrder::never;
  for (int i = 0; i < std::ssize(graph.streams); ++i) {
    const Stream& each = graph.streams[i];
    starts.push_back(state.order.start(i));
    bool takes_room = each.letter == 'F' && graph.task.most_of(each.rank) < PartialOrder::never;
    if (!takes_room && each.seconds > 0) limit = std::min(limit, starts[i] + each.seconds);
  }
  for (int i = 0; i < std::ssize(starts); ++i) {
    if (starts[i] < state.order.now() || starts[i] >= limit) continue;
    const BeamChild found = child_of(state, i, starts, graph);
    if (found.bound < most) children.push_back(found);
  }
}

/// Makes the best children, `width` of them: first one for each of the numbers of cells that there
/// are, then a second one, and so on.
std::vector<BeamState> best_of(std::vector<BeamChild> children, int width) {
  std::stable_sort(children.begin(), children.end());
  std::unordered_map<std::uint64_t, const BeamChild*> last;  // by hash
  for (BeamChild& each : children) {
    const BeamChild*& alike = last[each.hash];
    if (alike) each.turn = alike->turn + (each.later > alike->later || each.bound > alike->bound);
    each.is_known = alike && each.turn == alike->turn;
    alike = &each;
  }
  std::ranges::stable_sort(children, {}, &BeamChild::turn);
  std::vector<BeamState> states;
  for (const BeamChild& each : children) {
    if (each.is_known) continue;
    if (std::ssize(states) == width) break;
    states.push_back({each.parent->order, each.bound, each.hash, each.after});
    states.back().order.add(each.stream);
  }
  return states;
}

/// Seconds that every order takes at least: of some of a rank's cells, the least that is before one
/// of them, what all take, and the least that is after one; the largest such sum of all ranks. Of a
/// stage that may keep K microbatches, a forward waits for the gradient of the microbatch K before.
double least_seconds(const OrderGraph& graph) {
  const int count = graph.task.microbatches;
  std::vector<std::vector<int>> cells(graph.task.ranks());
  for (int cell = 0; cell < std::ssize(graph.before); ++cell)
    cells[graph.streams[cell / count].rank].push_back(cell);
  double least = 0;
  for (std::vector<int>& all : cells) {
    std::ranges::sort(all, std::greater(), [&](int cell) { return graph.before[cell]; });
    for (const int last : all) {
      double sum = graph.after[last];
      for (const int cell : all) {
        if (graph.after[cell] < graph.after[last]) continue;
        sum += graph.streams[cell / count].seconds;
        least = std::max(least, graph.before[cell] + sum);
      }
    }
  }
  return least;
}

}  // namespace

FoundOrder search_order(const OrderTask& task, int width, const OrderProgress& progress) {
  check(task);
  constexpr int most_cells = 4096;
  const double cells = 1.0 * task.stages() * task.microbatches * (task.split ? 3 : 2);
  PG_CHECK(cells <= most_cells, "an update of ", cells, " cells is too large to search; ",
           most_cells, " are possible. Use fewer microbatches, or the list scheduler");
  const OrderGraph graph(task);
  FoundOrder best{{}, PartialOrder::never, least_seconds(graph)};
  auto take = [&](Plan rows) {
    const double seconds = simulate(verify(plan_of_rows(rows)), task.costs).makespan();
    if (seconds < best.seconds) best.seconds = seconds, best.rows = std::move(rows);
  };
  std::vector<int> as_1f1b;
  for (int rank = 0; rank < task.ranks(); ++rank) as_1f1b.push_back(task.ranks() - rank);
  for (const char* letters : {"BIFW", "FBIW"})
    for (const auto& ahead : {std::vector<int>(), as_1f1b}) take(list_order(task, letters, ahead));

  for (int kept = std::min(width, 8); best.seconds > best.bound * (1 + 1e-9); kept *= 4) {
    std::vector<BeamState> states{{PartialOrder(task, graph.streams)}};
    for (int done = 0; done < cells; ++done) {
      if (progress) progress(done, static_cast<int>(cells), best);
      std::vector<BeamChild> children;
      for (const BeamState& state : states)
        expand(state, best.seconds * (1 - 1e-9), graph, children);
      best.states += children.size();
      states = best_of(std::move(children), std::min(kept, width));
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(states.size(), 8); ++i)
      take(states[i].order.rows());
    if (kept >= width) break;
  }
  return best;
}

}  // namespace plangrad::parallel
