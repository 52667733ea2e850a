// Timeline: when each instruction of a plan ran, or would run. The engine measures one, the
// simulator predicts one; both are drawn alike. Not here: pictures (draw).
// Chapter 06.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

struct Record {
  int rank = 0;
  Lane lane = Lane::compute;
  Instruction instruction;
  double start = 0, end = 0;  ///< seconds since the plan began
  std::int64_t bytes = 0;     ///< that this rank sent
};

struct Timeline {
  int ranks = 0;
  std::vector<Record> records;

  /// End of the last record.
  double makespan() const;
  /// Share of the ranks' time in which their compute lanes stand still:
  ///   1 - busy / (ranks * makespan)
  double bubble() const;
  std::int64_t bytes() const;
};

}  // namespace paragrad::parallel
