// PlanRequest: the flags that plan's commands share, the plan that they ask for, and the same as a
// request of the plan player.
// Not here: single flags (plan_flags.h), and what commands do (examples/plan.cpp). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "examples/programs/plan_flags.h"
#include "examples/programs/plan_model.h"
#include "examples/programs/plan_order.h"
#include "examples/programs/plan_place.h"
#include "examples/programs/plan_search.h"
#include "parallel/drawing/draw.h"
#include "parallel/simulation/costs.h"

namespace plangrad::examples {

/// The flags of all commands; each command uses some of them.
struct PlanRequest {
  ScheduleFlags schedule;
  CostFlags costs;
  ModelFlags model;
  SearchFlags search;
  OrderFlags order;
  PlaceFlags place;
  int columns = 40;
  bool table = false, json = false, time_steps = false, critical_path = false, all = false;
  parallel::FigureOptions figure;
  std::string out, lanes;
  std::string other;  ///< the second plan of a comparison
  std::string machine, transport = "threads";
  bool measure = false;

  /// throws: Error if the command has a flag beside files for what a plan's file says
  void check_no_schedule(const CLI::App& command, const std::string& files) const;
  /// throws: Error if `command` was given both, or neither
  parallel::Plan plan(const CLI::App& command) const;
  /// The plan of the schedule flags.
  parallel::Plan schedule_plan() const;
  parallel::Plan endless_plan(const parallel::Layout& layout) const;
  std::string title() const;
};

/// The request for a plan at these costs.
///   a plan of a file is written into the request as text
nlohmann::json player_request(const ScheduleFlags& flags, const parallel::Plan& plan,
                              const parallel::Costs& costs);

}  // namespace plangrad::examples
