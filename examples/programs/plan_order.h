// OrderFlags: the flags of `plan rows`, which lists what is ready, and of `plan order`, which
// searches an order of an update's cells; and what both print.
// Not here: list scheduler and search (parallel/planner). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "parallel/planner/order.h"

namespace CLI {
class App;
}

namespace plangrad::examples {

struct PlanRequest;

struct OrderFlags {
  int stages = 0, microbatches = 1;          ///< stages 0: as many as `place` has
  std::vector<int> place = {};               ///< the rank of each stage; empty: stage s on rank s
  std::vector<double> kept = {}, most = {};  ///< kept empty: the model's bytes, or 1
  std::string priorities = "B,F";            ///< what the list scheduler prefers, in order
  std::vector<int> ahead = {};
  bool split = false;  ///< whether the search may split backwards
  int beam = 1000;

  /// Adds the flags of `plan order`, or else those of `plan rows`: also cuts, model and costs.
  void add_flags(CLI::App& app, PlanRequest& request, bool searches);
  /// The rows of the list scheduler, as text.
  std::string listed(const PlanRequest& request) const;
  /// Searches an order, and tells how far it is in a line on stderr if that is a terminal.
  /// returns: rows, seconds, bound, kept, states, and the fastest schedule that keeps no more
  nlohmann::json found(const PlanRequest& request) const;

 private:
  parallel::OrderTask task(const PlanRequest& request, bool split) const;
};

/// A search's result for people: rows, which `plan lower` reads, with sentences as comments.
std::string order_words(const nlohmann::json& found);

}  // namespace plangrad::examples
