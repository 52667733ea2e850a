// Schedules in every combination of width, depth and number of microbatches, with the options that
// are not part of the grid changing along: what the engine's tests run over threads and over MPI.
// Not here: the model and its microbatches (small_run).
#pragma once

#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/small_run.h"

namespace plangrad::tests {

struct Case {
  std::string schedule;
  int width, stages, microbatches;
  bool recompute, clip, tied, sgd;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.schedule << " W" << c.width << " D" << c.stages << " M" << c.microbatches
             << (c.recompute ? " recompute" : "") << (c.clip ? " clip" : "")
             << (c.tied ? " tied" : "") << (c.sgd ? " sgd" : "");
}

inline Training training_of(const Case& c) {
  return training_with_warmup(gpt(small_gpt(c.tied, 0.1)), c.stages, !c.sgd, c.clip ? 0.3 : 0);
}

inline Layout layout_of(const Case& c, int steps) {
  bool tied = c.tied && c.stages > 1;
  return {c.stages, c.width, c.microbatches, steps, 0, c.recompute, c.clip, tied};
}

/// The periods of the options have no common divisor, so that all of them meet each other.
inline std::vector<Case> grid(const std::vector<int>& widths = {1, 2}) {
  std::vector<Case> cases;
  int i = 0;
  for (const auto& [schedule, make] : ordinary_schedules())
    for (int width : widths)
      for (int stages : {1, 2, 4})
        for (int microbatches : {1, 3})
          for (bool recompute : {false, true}) {
            ++i;
            const Case c{schedule,  width,      stages,         microbatches,
                         recompute, i % 3 == 0, i % 7 % 2 == 0, i % 5 == 0};
            if (!takes(schedule, layout_of(c, 1)) || (is_chunked(schedule) && i % 5 > 0)) continue;
            cases.push_back(c);
          }
  return cases;
}

}  // namespace plangrad::tests
