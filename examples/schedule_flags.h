// ScheduleFlags: a plan as a command line asks for it: by a schedule's name and sizes, or as the
// text file that holds it. Not here: the schedules (parallel/schedules/).
// Chapter 06.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "examples/program.h"
#include "nn/file.h"
#include "parallel/schedule.h"

namespace paragrad::examples {

struct ScheduleFlags {
  std::string schedule;  ///< empty: not given
  int stages = 1, data_parallel = 1, microbatches = 1;
  bool recompute = false;
  std::string plan_file;  ///< instead of the others; "-" is standard input, empty: not given

  /// All but the plan's file, which each program asks for in its own way.
  void add_flags(Flags& flags);

  /// Of one step, the run's first.
  parallel::Layout layout() const;
};

inline void ScheduleFlags::add_flags(Flags& flags) {
  std::vector<std::string> names;
  for (const auto& [name, make] : parallel::schedules()) names.push_back(name);
  flags.group("Schedule");
  flags.choice("--schedule", schedule, names, "order of the work, and the weights that it reads");
  flags.whole("--stages", stages, 1, "parts that the model is cut into");
  flags.whole("--data-parallel", data_parallel, 1, "replicas of the model");
  flags.whole("--microbatches", microbatches, 1, "parts of a replica's batch");
  flags.yes("--recompute", recompute, "drop activations and compute them again; saves memory");
}

inline parallel::Layout ScheduleFlags::layout() const {
  return {.stages = stages,
          .width = data_parallel,
          .microbatches = microbatches,
          .recompute = recompute};
}

/// A plan from its text form. What it says is not verified.
/// throws: Error, with file and line
inline parallel::Plan read_plan(const std::string& file) {
  bool from_input = file == "-";
  std::string content =
      from_input ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : nn::read_file(file);
  try {
    return parallel::parse(content);
  } catch (const autograd::Error& error) {
    throw autograd::Error(text(from_input ? "standard input" : file, ": ", error.what()));
  }
}

}  // namespace paragrad::examples
