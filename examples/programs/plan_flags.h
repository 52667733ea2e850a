// Flags of plans: the fields of a table as flags, ScheduleFlags, which select a plan by a
// schedule's name and sizes or by a text file, and CostFlags. Not here: the tables
// (parallel/schedules/plan_spec.h, parallel/simulation/costs.h), and the flags of whole runs
// (run_flags.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "autograd/dtype.h"
#include "examples/pages/player/request.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/costs.h"

namespace plangrad::examples {

class Flags;

struct ScheduleFlags : parallel::PlanSpec {
  std::string plan_file = {};  ///< replaces the other flags; "-": standard input; empty: not given

  /// Describes every flag but the plan's file, which each program names in its own way.
  ///   of_plans: also those of fields that training finds elsewhere
  ///   names: those of these fields alone, in the group that is set; empty: all
  void add_flags(Flags& flags, bool of_plans = false, const std::set<std::string>& names = {});
  bool any_given() const;  ///< of what a plan's file says

  /// The layout of the run's first update, with defaults for flags that were not given.
  /// throws: Error if the flags contradict each other
  parallel::Layout found() const;
  /// The schedule's note on what this layout costs, with or without clipping. The note is empty if
  /// the schedule has none, and for a plan's file.
  std::string note(bool clip) const;

  /// The number of a batch's examples in a microbatch, or a lower bound if it depends on ranks.
  double smallest_share(std::int64_t batch, int ranks) const;

  /// Derives flags that were not given from the number of ranks (0: not known yet).
  /// throws: Error if no layout fits this number
  void fit(int ranks);

  /// Sets a size as if it had been given.
  void set(const char* field, int& size, int value) {
    size = value;
    given.insert(field);
  }

 private:
  void check_cyclic() const;
  int stages_on(int ranks) const;
};

/// Reads a plan's text form, without verifying the plan.
/// throws: Error, with file and line
parallel::Plan read_plan(const std::string& file);

/// Costs in seconds, bytes, and bytes per second.
struct CostFlags {
  parallel::Costs costs = asked_costs();

  void add_flags(Flags& flags);
  /// Returns the costs of `plan`; its codecs shorten messages as they shorten f32 values.
  /// throws: Error if that length depends on shapes, as with lowrank and pca
  parallel::Costs of(const parallel::Plan& plan) const;
};

/// The fields that a training run saves, by their flags, and back. Flags of other things are left
/// alone. throws: Error that names the flag
void save_fields(const parallel::PlanSpec& request, nlohmann::json& flags);
parallel::PlanSpec saved_spec(const nlohmann::json& flags);

/// The fields as words of a command line, without those that were not given.
std::vector<std::string> words_of(const parallel::PlanSpec& request);

/// throws: Error if the codec makes large messages of this type no smaller; `flag` sets the codec
void check_smaller(const char* flag, const parallel::CodecSpec& spec, autograd::DType dtype);

}  // namespace plangrad::examples
