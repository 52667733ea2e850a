// A graph is a text with a line for each operator. Chapter 16.
#include "examples/programs/plan_place.h"

#include <fmt/ranges.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "parallel/drawing/figure.h"
#include "parallel/planner/placement.h"

namespace plangrad::examples {

using namespace parallel;
using Json = nlohmann::json;

namespace {

struct PlaceFlags {
  std::string file = {};
  int devices = 1;
  double bandwidth = 1e30;  ///< bytes per second; the default: unlimited

  void add_flags(Flags& flags);
  /// returns: most, sets, and devices with their load and operators
  Json run() const;
};

void PlaceFlags::add_flags(Flags& flags) {
  flags
      .words("FILE", file, "",
             "file with a line for each operator: its name, its seconds, the bytes of its output, "
             "and the names of its inputs, which stand above; what follows a # is skipped")
      .required();
  flags.whole("--devices", devices, 1, "devices; some may stay without an operator");
  flags.number("--bandwidth", bandwidth, 1e-30, 1e30,
               "bytes per second into a device, and out of it (default: unlimited)");
}

/// Reads an operator from its line's words; inputs are those of `graph`.
GraphOperator parse_operator(const std::vector<std::string>& words, const OperatorGraph& graph) {
  PG_CHECK(words.size() >= 3, "expected NAME SECONDS BYTES [INPUT ...]");
  auto find = [&](const std::string& name) {
    return static_cast<int>(std::ranges::find(graph, name, &GraphOperator::name) - graph.begin());
  };
  PG_CHECK(find(words[0]) == std::ssize(graph), words[0], " stands above, too");
  GraphOperator found{words[0], read_number<double>(words[1], 0, limits::large),
                      read_number<double>(words[2], 0, limits::large)};
  for (std::size_t i = 3; i < words.size(); ++i) {
    found.inputs.push_back(find(words[i]));
    PG_CHECK(found.inputs.back() < std::ssize(graph), "the input ", words[i], " of ", words[0],
             " does not stand above");
  }
  return found;
}

OperatorGraph read_graph(const std::string& file) {
  OperatorGraph graph;
  std::istringstream lines(nn::read_file(file, nn::most::config));
  int number = 0;
  for (std::string line; graph.size() <= most_operators && std::getline(lines, line);) {
    ++number;
    std::istringstream in(line.substr(0, line.find('#')));
    const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (words.empty()) continue;
    located(text(file, ", line ", number, ": "),
            [&] { graph.push_back(parse_operator(words, graph)); });
  }
  PG_CHECK(!graph.empty(), file,
           ": no operators; expected lines of NAME SECONDS BYTES [INPUT ...]");
  return graph;
}

Json PlaceFlags::run() const {
  const OperatorGraph graph = read_graph(file);
  const OperatorPlacement placed = place(graph, devices, bandwidth);
  Json json{{"most", placed.most}, {"sets", placed.sets}};
  for (const double load : placed.loads)
    json["devices"].push_back({{"load", load}, {"operators", Json::array()}});
  for (std::size_t i = 0; i < graph.size(); ++i)
    json["devices"][placed.device[i]]["operators"].push_back(graph[i].name);
  return json;
}

std::string place_words(const Json& placed) {
  std::string words;
  for (std::size_t i = 0; i < placed["devices"].size(); ++i) {
    const Json& device = placed["devices"][i];
    words += fmt::format("device {:<4}{:>10}  {}\n", i, seconds_text(device["load"]),
                         fmt::join(device["operators"].get<std::vector<std::string>>(), " "));
  }
  return words + fmt::format(
                     "The busiest device takes {} for an input: the least of placements whose "
                     "outputs go to later devices only, by {} down-closed sets.\n",
                     seconds_text(placed["most"]), placed["sets"].get<std::size_t>());
}

}  // namespace

Command place_command() {
  const auto place = std::make_shared<PlaceFlags>();
  return {"place",
          "Places the operators of a graph on devices.",
          {{"Place a block of a transformer on two",
            "plan place examples/graphs/gpt-block.txt --devices 2 --bandwidth 25e9"}},
          [=](Flags flags, PlanRequest& request) {
            place->add_flags(flags);
            flags.yes("--json", request.json, "print the devices as JSON");
          },
          [=](const PlanRequest& request, const Flags&) {
            const Json placed = place->run();
            request.json ? print_json(placed) : print_text(place_words(placed));
          }};
}

}  // namespace plangrad::examples
