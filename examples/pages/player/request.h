// Request: what a page asks the player for: a plan, by its text or by a schedule, and its costs.
// Not here: the answer (player_facts.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "parallel/schedules/plan_spec.h"
#include "parallel/simulation/costs.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Keys of the JSON, all of which but the plan can be left out:
///   plan           the plan's text, instead of all keys of a schedule
///   schedule       its name; then stages, data_parallel, microbatches (cyclic schedules have as
///                  many as stages), steps, first, zero, recompute, clip, tied, endless, codec,
///                  channel, and the flags of this schedule: chunks, placement, drift, setting, ...
///   title          what to call it
///   costs          forward, backward, input_part, weight_part, step: lists of seconds, by stage or
///                  one for all; latency, bandwidth; activation_bytes, weight_bytes: lists;
///                  slowness: a list by rank
///   slow_rank, slow_factor   one rank that computes slower, whatever the number of ranks
struct PlayerRequest : PlanSpec {
  std::string text;   ///< of the plan, if it was given
  std::string title;  ///< what to call the plan; empty: by its schedule
  Costs costs;
  int slow_rank = -1;
  double slow_factor = 1;

  /// The costs of a plan with this many ranks.
  Costs costs_of(const Plan& plan) const;
};

/// throws: Error that names the key that is wrong, and what it takes
PlayerRequest read_request(const nlohmann::json& json);

/// The plan that a request asks for by its schedule. throws: Error if there is none
Plan plan_of(const PlayerRequest& request);

/// All fields of a request, for a page that makes controls of them.
nlohmann::json list_of_fields();
/// All schedules, for a page that lets its reader choose one: name, idea, paper, flags.
nlohmann::json list_of_schedules();

}  // namespace plangrad::examples
