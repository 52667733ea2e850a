// ScheduleFlags: a plan as a command line asks for it: by a schedule's name and sizes, or as the
// text file that holds it. Not here: the schedules (parallel/schedules/).
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
  std::string plan_file;       ///< instead of the others; "-" is standard input, empty: not given

  /// Describes every flag but the plan's file, which each program asks for in its own way.
  void add_flags(Flags& flags);
  bool given() const;
  /// How the schedule behaves; before one is found, as most do.
  const parallel::Schedule& behaviour() const;
  bool cyclic() const { return behaviour().cyclic; }
  std::string setting_found() const { return setting.empty() ? "data" : setting; }
  /// The schedule, and its setting if it has any.
  std::string title() const;
  parallel::CodecSpec codec_found() const;
  parallel::CodecSpec channel_found() const;
  /// Whether microbatches wait for turns, which --gap is about.
  bool has_turns() const;

  /// The layout of the run's first step; what was not given has its default.
  /// throws: Error if the flags contradict each other
  parallel::Layout layout() const;

  /// Examples of a batch in a microbatch, or fewer where only the number of ranks will tell.
  double smallest_share(std::int64_t batch, int ranks) const;

  /// Finds what was not given from the number of ranks, if that is known (0: it is not).
  /// throws: Error if no layout has this number
  void fit(int ranks);

 private:
  void check_own_flags() const;
  void check_cyclic() const;
  int stages_on(int ranks) const;
};

/// A plan from its text form. What it says is not verified.
/// throws: Error, with file and line
parallel::Plan read_plan(const std::string& file);

}  // namespace paragrad::examples
