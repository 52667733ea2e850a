// A dynamic program: each device takes what makes a down-closed set a larger one. Chapter 16.
#include "parallel/planner/placement.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <unordered_set>

#include "autograd/error.h"

namespace plangrad::parallel {
namespace {

using OperatorSet = std::bitset<most_operators>;

/// A down-closed set, the seconds of its operators, and those whose output others need.
struct DownClosed {
  OperatorSet bits;
  double seconds = 0;
  std::vector<int> leaving = {};
};

/// For each operator, the operators that need its output.
std::vector<OperatorSet> readers_of(const OperatorGraph& graph) {
  std::vector<OperatorSet> readers(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i)
    for (const int input : graph[i].inputs) readers[input].set(i);
  return readers;
}

/// All down-closed sets; none stands before one that it contains.
std::vector<DownClosed> down_closed_sets(const OperatorGraph& graph,
                                         const std::vector<OperatorSet>& readers) {
  std::vector<DownClosed> sets(1);
  std::unordered_set<OperatorSet> known;
  for (std::size_t next = 0; next < sets.size(); ++next) {
    const OperatorSet bits = sets[next].bits;
    for (int i = 0; i < std::ssize(graph); ++i) {
      auto is_there = [&](int input) { return bits[input]; };
      if (bits[i]) {
        sets[next].seconds += graph[i].seconds;
        if ((readers[i] & ~bits).any()) sets[next].leaving.push_back(i);
      } else if (std::ranges::all_of(graph[i].inputs, is_there)) {
        OperatorSet more = bits;
        if (known.insert(more.set(i)).second) sets.push_back({more});
      }
    }
    PG_CHECK(sets.size() <= most_down_closed_sets, "the graph has more than ",
             most_down_closed_sets, " down-closed sets (operators with all that they need), too ",
             "many to place; join operators of branches that are side by side");
  }
  return sets;
}

}  // namespace

OperatorPlacement place(const OperatorGraph& graph, int devices, double bandwidth) {
  PG_CHECK(graph.size() <= most_operators, "the graph has ", graph.size(), " operators; at most ",
           most_operators, " can be placed");
  PG_CHECK(devices <= int{most_operators}, devices, " devices: at most ", most_operators,
           " have an operator, and others are of no use; use fewer devices");
  const std::vector<OperatorSet> readers = readers_of(graph);
  const std::vector<DownClosed> sets = down_closed_sets(graph, readers);
  auto load = [&](const DownClosed& before, const DownClosed& after) {
    double bytes = 0;
    for (const int i : after.leaving)
      if (!before.bits[i]) bytes += graph[i].bytes;
    for (const int i : before.leaving)
      if ((readers[i] & after.bits & ~before.bits).any()) bytes += graph[i].bytes;
    return after.seconds - before.seconds + bytes / bandwidth;
  };
  // For each set and number of devices that make the set: the least load of the busiest device, and
  // the set that all but the last of these devices make.
  const std::size_t width = devices + 1;
  std::vector<double> least(sets.size() * width, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> before(sets.size() * width, 0);
  std::fill_n(least.begin(), width, 0);
  for (std::size_t i = 1; i < sets.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      if ((sets[j].bits & ~sets[i].bits).any()) continue;
      const double last = i == j ? 0 : load(sets[j], sets[i]);
      for (std::size_t k = 1; k < width; ++k)
        if (const double most = std::max(least[j * width + k - 1], last);
            most < least[i * width + k])
          least[i * width + k] = most, before[i * width + k] = j;
    }
  OperatorPlacement found{std::vector<int>(graph.size()), std::vector<double>(devices),
                          least.back(), sets.size()};
  std::size_t i = sets.size() - 1;
  for (int device = devices - 1; device >= 0; --device) {
    const std::size_t j = before[i * width + device + 1];
    if (i != j) found.loads[device] = load(sets[j], sets[i]);
    for (std::size_t each = 0; each < graph.size(); ++each)
      if (sets[i].bits[each] && !sets[j].bits[each]) found.device[each] = device;
    i = j;
  }
  return found;
}

}  // namespace plangrad::parallel
