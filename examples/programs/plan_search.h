// SearchFlags: the flags of `plan search`, which finds the fastest plans for a model on a machine,
// and what it prints. Not here: the search itself (parallel/planner/search.h).
// Chapter 16.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "parallel/plan/codec_spec.h"

namespace CLI {
class App;
}

namespace plangrad::examples {

struct SearchFlags {
  std::string model = {}, machine = {};     ///< names or files
  std::string costs = {};                   ///< the folder of a run; empty: none
  int devices = 0, batch = 0;               ///< 0: 1, or the run's
  int rows = 10;                            ///< plans that are printed
  double memory = 0;                        ///< bytes of a device; 0: the machine's
  std::vector<std::string> schedules = {};  ///< empty: all
  std::string dtype = {};   ///< empty: the run's, or bf16 where the machine's peak is higher
  std::string device = {};  ///< empty: the run's, or cpu where the machine's devices have cores
  std::vector<double> prune = {0};
  std::vector<parallel::CodecSpec> codecs = {{}}, channels = {{}};

  void add_flags(CLI::App& app);
  /// Searches, and tells how far it is in a line on stderr if that is a terminal.
  /// returns: what was asked, the numbers of plans, and the best ones: best, nearest, command
  /// throws: Error, also if no plan fits: it says how much the nearest one lacks
  nlohmann::json run() const;
};

/// The result of a search for people: a table, and sentences on its first line.
std::string search_words(const nlohmann::json& found);

}  // namespace plangrad::examples
