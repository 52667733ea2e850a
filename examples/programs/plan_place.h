// PlaceFlags: the flags of `plan place`, which places the operators of a graph on devices, and what
// it prints. Not here: the placement itself (parallel/planner/placement.h).
// Chapter 16.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace CLI {
class App;
}

namespace plangrad::examples {

struct PlaceFlags {
  std::string file = {};
  int devices = 1;
  double bandwidth = 1e30;  ///< bytes per second; the default: unlimited

  void add_flags(CLI::App& app);
  /// returns: most, sets, and devices with their load and operators
  nlohmann::json run() const;
};

std::string place_words(const nlohmann::json& placed);

}  // namespace plangrad::examples
