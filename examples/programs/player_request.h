// player_request: what a command line asks of the plan player, as its page writes it.
// Not here: the player (examples/pages/player/). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "examples/programs/schedule_flags.h"
#include "parallel/simulation/costs.h"

namespace plangrad::examples {

/// The request for a plan at these costs.
///   a plan of a file is written into the request as text
nlohmann::json player_request(const ScheduleFlags& flags, const parallel::Plan& plan,
                              const parallel::Costs& costs);

}  // namespace plangrad::examples
