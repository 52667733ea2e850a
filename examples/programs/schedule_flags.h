// ScheduleFlags: the flags that select a plan: by a schedule's name and sizes, or by the text file
// that holds it. Not here: the schedules (parallel/schedules/).
// Chapter 06.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/schedules/schedule.h"

namespace plangrad::examples {

class Flags;

struct ScheduleFlags {
  std::string schedule;                                 ///< empty: not given
  int stages = 0, data_parallel = 0, microbatches = 0;  ///< 0: not given
  int zero = 0;
  std::map<std::string, std::string> own = {};  ///< flags that only some schedules have, as given
  bool recompute = false;
  std::string codec, channel;  ///< empty: not given
  std::string plan_file;       ///< replaces the other flags; "-": standard input; empty: not given

  /// Describes every flag but the plan's file, which each program names in its own way.
  void add_flags(Flags& flags);
  bool given() const;
  /// The schedule's traits; before a schedule is found, those that most schedules have.
  const parallel::Schedule& behaviour() const;
  bool cyclic() const { return behaviour().cyclic; }
  bool gives(const std::string& flag) const { return own.contains(flag) && !own.at(flag).empty(); }
  std::string setting_found() const { return gives("--setting") ? own.at("--setting") : "data"; }
  /// The schedule's name, with its setting if it has one.
  std::string title() const;
  parallel::CodecSpec codec_found() const;
  parallel::CodecSpec channel_found() const;
  /// Whether microbatches take turns, which --gap spaces.
  bool has_turns() const;

  /// The layout of the run's first update, with defaults for flags that were not given.
  /// throws: Error if the flags contradict each other
  parallel::Layout layout() const;
  /// The schedule's note on what this layout costs, with or without clipping. The note is empty if
  /// the schedule has none, and for a plan's file.
  std::string note(bool clip) const;

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

/// The names of all schedules.
std::vector<std::string> schedule_names();

/// Reads a plan's text form, without verifying the plan.
/// throws: Error, with file and line
parallel::Plan read_plan(const std::string& file);

}  // namespace plangrad::examples
