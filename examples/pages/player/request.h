// Request: what a page asks the player for: a plan, by its text or by a schedule, and its costs.
// Not here: the answer (player_facts.h). Chapter 06.
#pragma once

#include <array>
#include <nlohmann/json.hpp>

#include "parallel/schedules/plan_spec.h"
#include "parallel/simulation/costs.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Costs before a user gives some: a backward is not known yet.
inline Costs asked_costs() { return {.backward = {}}; }
/// The costs as they were given; a backward that was not takes as long as both of its parts, or 2.
Costs with_backward(Costs costs);

/// A GPT whose bytes the panel of memory shows, as they are on the blank device (parallel/planner).
struct ShownModel {
  std::string name;
  int blocks = 0;
  /// Elements of the embedding without its table of words, which the head has, too, or shares
  /// (tied); of this table; of a block; of the head without the table.
  std::array<double, 4> elements = {};
  /// Bytes of an element in the weights, a sum of gradients and the optimizer's state.
  std::array<double, 3> state = {};
  /// Bytes of a sequence that embedding, block and head keep beside what a layer passes on to them.
  std::array<double, 3> kept = {};
  double output = 0;  ///< bytes of what a layer passes on, of a sequence
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShownModel, name, blocks, elements, state, kept, output)
/// The models that a page offers: the GPTs among planned_models().
std::vector<ShownModel> shown_models();

/// Keys of the JSON, all of which but the plan can be left out:
///   plan           the plan's text, instead of all keys of a schedule
///   schedule       its name; then stages, data_parallel, microbatches (cyclic schedules have as
///                  many as stages), steps, first, zero, recompute, clip, tied, endless, codec,
///                  channel, and the flags of this schedule: chunks, placement, drift, setting, ...
///   title          what to call it
///   of             of a plan's text: the schedule that it is of, an object with those keys
///   models         models whose bytes of memory are asked for, as ShownModel has them: a page that
///                  answers by itself has no room for models and their kernels
///   costs          forward, backward, input_part, weight_part, step: lists of seconds, by stage or
///                  one for all; latency, bandwidth; activation_bytes, weight_bytes: lists;
///                  slowness: a list by rank
///   slow_rank, slow_factor   one rank that computes slower, whatever the number of ranks
struct PlayerRequest : PlanSpec {
  std::string text;   ///< of the plan, if it was given
  PlanSpec of;        ///< the schedule that a text is of; empty: not known
  std::string title;  ///< what to call the plan; empty: by its schedule
  std::vector<ShownModel> models;
  Costs costs = asked_costs();
  int slow_rank = -1;
  double slow_factor = 1;

  /// The costs of a plan with this many ranks.
  Costs costs_of(const Plan& plan) const;
};

/// throws: Error that names the key that is wrong, and what it takes
PlayerRequest read_request(const nlohmann::json& json);

/// All fields of a request, for a page that makes controls of them.
nlohmann::json list_of_fields();
/// All schedules, for a page that lets its reader choose one: name, idea, paper, flags.
nlohmann::json list_of_schedules();

}  // namespace plangrad::examples
