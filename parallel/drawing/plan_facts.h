// Facts about a plan, for people (names with values) and for programs (JSON).
// Not here: how they are computed (parallel/verifier/verify.h, parallel/simulation/simulate.h).
// Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "parallel/simulation/steady_state.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

/// Names and values, a line each.
using Lines = std::vector<std::pair<std::string, std::string>>;

/// The facts that verify found, as names and values. Those of an endless plan hold at every length,
/// save for messages, which it counts with one body.
Lines lines(const VerifiedPlan& verified);
/// The most bytes that each rank keeps of outputs of its stages, for their backwards; none if the
/// costs give outputs no bytes.
Lines lines(const Plan& plan, const Costs& costs);
/// The times that simulate found, as names and values.
Lines lines(const Timeline& timeline);
/// The time and bubble that each body adds to an endless plan, as names and values.
Lines lines(const SteadyState& steady);
/// The contents of the time steps of the update in the middle, as names and values.
Lines lines(const TimeSteps& steps);

/// Facts and times as JSON; time steps are left out if no computation takes time.
nlohmann::json to_json(const VerifiedPlan& verified, const Timeline& timeline);
nlohmann::json to_json(const Plan& plan, const Costs& costs);
nlohmann::json to_json(const SteadyState& steady);
/// All facts of a plan and what it takes at these costs, as `plan verify --json` prints them.
nlohmann::json all_facts(const VerifiedPlan& verified, const Costs& costs);
/// A plan's header, and its rows as lists of words, with the bars of an endless plan.
nlohmann::json to_json(const Plan& plan);
/// The rule that is broken, and where. Whether a plan can hang is known only once it breaks no
/// other rule.
nlohmann::json to_json(const PlanError& error);

}  // namespace plangrad::parallel
