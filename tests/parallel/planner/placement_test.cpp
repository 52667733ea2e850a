// Placement: random graphs against all placements, loads by hand, and graphs that are too large.
// Chapter 16; Tarnawski et al. 2020.
#include "parallel/planner/placement.h"

#include <random>

#include "tests/catch.h"

using namespace plangrad::parallel;
using Catch::Matchers::WithinRel;

namespace {

/// What each device does for an input, written out.
std::vector<double> loads_of(const OperatorGraph& graph, const std::vector<int>& device,
                             int devices, double bandwidth) {
  std::vector<double> loads(devices, 0);
  for (std::size_t i = 0; i < graph.size(); ++i) loads[device[i]] += graph[i].seconds;
  for (int source = 0; source < std::ssize(graph); ++source) {
    std::vector<bool> reads(devices, false);
    for (int i = 0; i < std::ssize(graph); ++i)
      if (std::ranges::count(graph[i].inputs, source) > 0) reads[device[i]] = true;
    reads[device[source]] = false;
    for (int each = 0; each < devices; ++each)
      if (reads[each]) loads[each] += graph[source].bytes / bandwidth;
    if (std::ranges::count(reads, true) > 0)
      loads[device[source]] += graph[source].bytes / bandwidth;
  }
  return loads;
}

bool goes_forwards(const OperatorGraph& graph, const std::vector<int>& device) {
  for (std::size_t i = 0; i < graph.size(); ++i)
    for (const int input : graph[i].inputs)
      if (device[input] > device[i]) return false;
  return true;
}

/// The least largest load, by trying all placements.
double least_by_hand(const OperatorGraph& graph, int devices, double bandwidth) {
  std::vector<int> device(graph.size(), 0);
  double least = 1e30;
  for (bool more = true; more;) {
    if (goes_forwards(graph, device))
      least = std::min(least, std::ranges::max(loads_of(graph, device, devices, bandwidth)));
    more = false;
    for (std::size_t i = 0; i < device.size() && !more; ++i)
      if (++device[i] < devices)
        more = true;
      else
        device[i] = 0;
  }
  return least;
}

/// Each operator needs the one on its left and the one above.
OperatorGraph recurrent(int rows, int columns) {
  OperatorGraph graph;
  for (int i = 0; i < rows * columns; ++i) {
    graph.push_back({std::to_string(i), 1 + i % 3 / 2.0, 1});
    if (i % columns > 0) graph[i].inputs.push_back(i - 1);
    if (i >= columns) graph[i].inputs.push_back(i - columns);
  }
  return graph;
}

}  // namespace

TEST_CASE("placement: random graphs are placed as well as by trying all", "[placement]") {
  std::mt19937 random(3);
  int with_idle = 0;
  for (int i = 0; i < 60; ++i) {
    OperatorGraph graph(3 + random() % 5);
    for (std::size_t each = 0; each < graph.size(); ++each) {
      graph[each].seconds = random() % 10;
      graph[each].bytes = random() % 8;
      for (std::size_t input = 0; input < each; ++input)
        if (random() % 3 == 0) graph[each].inputs.push_back(static_cast<int>(input));
    }
    const int devices = 1 + static_cast<int>(random() % 4);
    const double bandwidth = i % 3 == 0 ? 1e9 : 1;
    const OperatorPlacement placed = place(graph, devices, bandwidth);
    CAPTURE(i, devices, bandwidth);
    CHECK_THAT(placed.most, WithinRel(least_by_hand(graph, devices, bandwidth), 1e-9));
    CHECK(goes_forwards(graph, placed.device));
    const std::vector<double> loads = loads_of(graph, placed.device, devices, bandwidth);
    for (int each = 0; each < devices; ++each)
      CHECK_THAT(placed.loads[each], WithinRel(loads[each], 1e-9));
    CHECK(placed.most == std::ranges::max(placed.loads));
    with_idle += std::ranges::count(placed.loads, 0) > 0;
  }
  CHECK(with_idle > 0);
}

TEST_CASE("placement: an output that crosses counts once on each side", "[placement]") {
  // Two readers of one output on one other device.
  const OperatorGraph graph{{"a", 10, 4}, {"b", 3, 0, {0}}, {"c", 5, 0, {0}}};
  const OperatorPlacement placed = place(graph, 2, 2);
  CHECK(placed.device == std::vector<int>{0, 1, 1});
  CHECK(placed.loads == std::vector<double>{12, 10});
  CHECK(placed.sets == 5);
  // Where messages take longer than work, all stay on one device.
  CHECK(place(graph, 3, 0.1).loads.size() == 3);
  CHECK(place(graph, 3, 0.1).most == 18);
}

TEST_CASE("placement: down-closed sets are counted, and too many are refused", "[placement]") {
  CHECK(place(recurrent(4, 8), 3, 1e9).sets == 495);  // 12 over 4
  CHECK_THROWS_WITH(place(recurrent(7, 13), 2, 1e9),
                    Contains("more than 20000 down-closed sets") && Contains("join operators"));
  CHECK_THROWS_WITH(place(OperatorGraph(513), 2, 1e9), Contains("513 operators; at most 512"));
}
