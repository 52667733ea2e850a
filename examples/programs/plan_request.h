// PlanRequest: the flags that plan's commands share, the plan that they ask for, and the same as a
// request of the plan player. Command: an entry of the list in examples/plan.cpp.
// Not here: single flags (plan_flags.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "examples/programs/plan_flags.h"
#include "examples/programs/plan_model.h"
#include "examples/programs/program.h"
#include "parallel/drawing/draw.h"
#include "parallel/simulation/costs.h"

namespace plangrad::examples {

/// The flags of all commands; each command uses some of them.
struct PlanRequest {
  ScheduleFlags schedule;
  CostFlags costs;
  ModelFlags model;
  int columns = 40;
  bool table = false, json = false, time_steps = false, critical_path = false, game = false;
  parallel::FigureOptions figure;
  std::string out, lanes, drawing = "txt";
  std::string command;  ///< as it was typed, without --out
  std::string other;    ///< the second plan of a comparison
  std::string machine, transport = "threads";
  bool measure = false;
  std::string format = "plan";  ///< of shown text: plan or torch

  /// throws: Error if the command has a flag beside files for what a plan's file says
  void check_no_schedule(const CLI::App& command, const std::string& files) const;
  /// throws: Error if `command` was given both, or neither
  parallel::Plan plan(const CLI::App& command) const;
  /// The plan of the schedule flags.
  parallel::Plan schedule_plan() const;
  std::string title() const;
  /// The form of a drawing: the ending of its file or, where it is printed, what --format says.
  std::string form() const { return out.empty() ? drawing : out.substr(out.rfind('.') + 1); }
};

/// A command: what --help says of it, its flags, and what it does when they have been read.
struct Command {
  const char *name, *what;
  std::vector<Example> examples;
  std::function<void(Flags flags, PlanRequest& request)> add_flags;
  std::function<void(const PlanRequest& request, const Flags& flags)> run;
};

/// Prints text in which others' files may be quoted.
void print_text(const std::string& text);
/// Prints JSON in ASCII, so that no terminal obeys a string in it.
void print_json(const nlohmann::json& json);

/// The request for a plan at these costs.
///   a plan of a file is written into the request as text
nlohmann::json player_request(const ScheduleFlags& flags, const parallel::Plan& plan,
                              const parallel::Costs& costs);

}  // namespace plangrad::examples
