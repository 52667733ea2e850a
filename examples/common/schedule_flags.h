// ScheduleFlags: the flags that select a plan: by a schedule's name and sizes, or by the text file
// that holds it. Not here: the schedules (parallel/schedules/).
// Chapter 06.
#pragma once

#include <string>

#include "parallel/schedules/schedule.h"

namespace paragrad::examples {

class Flags;

struct ScheduleFlags {
  std::string schedule, setting;                        ///< empty: not given
  int stages = 0, data_parallel = 0, microbatches = 0;  ///< 0: not given
  int zero = 0;
  int gap = 0, in_flight = 0;  ///< 0: not given
  bool recompute = false;
  std::string codec, channel;  ///< empty: not given
  std::string plan_file;       ///< replaces the other flags; "-": standard input; empty: not given

  /// Describes every flag but the plan's file, which each program names in its own way.
  void add_flags(Flags& flags);
  bool given() const;
  /// The schedule's traits; before a schedule is found, those that most schedules have.
  const parallel::Schedule& behaviour() const;
  bool cyclic() const { return behaviour().cyclic; }
  std::string setting_found() const { return setting.empty() ? "data" : setting; }
  /// The schedule's name, with its setting if it has one.
  std::string title() const;
  parallel::CodecSpec codec_found() const;
  parallel::CodecSpec channel_found() const;
  /// Whether microbatches take turns, which --gap spaces.
  bool has_turns() const;

  /// The layout of the run's first update, with defaults for flags that were not given.
  /// throws: Error if the flags contradict each other
  parallel::Layout layout() const;
  /// What the schedule says about this layout's cost; empty if nothing, and for a plan's file.
  std::string note() const;

  /// The number of a batch's examples in a microbatch, or a lower bound if it depends on ranks.
  double smallest_share(std::int64_t batch, int ranks) const;

  /// Derives flags that were not given from the number of ranks (0: not known yet).
  /// throws: Error if no layout fits this number
  void fit(int ranks);

 private:
  void check_own_flags() const;
  void check_cyclic() const;
  int stages_on(int ranks) const;
};

/// Reads a plan's text form, without verifying the plan.
/// throws: Error, with file and line
parallel::Plan read_plan(const std::string& file);

}  // namespace paragrad::examples
