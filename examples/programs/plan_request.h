// PlanRequest: what `plan` is asked for: a plan, by flags or from a file, and its costs.
// Not here: what its commands do (examples/plan.cpp).
// Chapter 06.
#pragma once

#include <string>

#include "examples/programs/cost_flags.h"
#include "examples/programs/schedule_flags.h"
#include "parallel/drawing/draw.h"

namespace CLI {
class App;
}

namespace plangrad::examples {

/// The flags of all commands; each command uses some of them.
struct PlanRequest {
  ScheduleFlags schedule;
  CostFlags costs;
  int columns = 40;
  bool table = false, json = false, time_steps = false, critical_path = false, all = false;
  parallel::FigureOptions figure;
  std::string out, lanes;
  std::string other;  ///< the second plan of a comparison

  /// Adds the plan's file, and the flags that describe a schedule.
  void add_plan_flags(CLI::App& command);
  /// throws: Error if `command` was given both, or neither
  parallel::Plan plan(const CLI::App& command) const;
  /// The plan of the schedule flags.
  parallel::Plan made() const;
  parallel::Plan endless_plan(const parallel::Layout& layout) const;
  std::string title() const;
};

}  // namespace plangrad::examples
