// Timeline: when each instruction of a plan ran, or would run. The engine measures one, the
// simulator predicts one; all questions about time are asked of either alike.
// Not here: what is alive and sent meanwhile (simulation/time_steps.h), pictures. Chapter 06.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// When a cell ran. A measured timeline has no records of drops, which take no time, and of norms
/// of groups of one, which need no message.
struct Record {
  int rank = 0;
  Lane lane = Lane::compute;
  Instruction instruction;
  double start = 0, end = 0;  ///< seconds since the plan began
  std::int64_t bytes = 0;     ///< bytes that this rank sent
  double cpu = 0;  ///< measured computations: CPU time of the computing thread, in seconds
  int cell = -1;   ///< its place in the rank's row, in the order in which the row ran
};

struct Timeline {
  int ranks = 0;
  std::vector<Record> records;
  std::vector<std::vector<double>> bars = {};  ///< per rank: where the bodies of an endless plan
                                               ///< begin, and where the last one ends; or empty

  /// The end of the last record, in seconds.
  double makespan() const;
  /// Share of the ranks' time in which their compute lanes are idle:
  ///   1 - busy / (ranks * makespan)
  double bubble() const;
  std::int64_t bytes() const;  ///< bytes that all ranks sent
};

/// For each record of a send or receive, the record of its other end: the k-th send of a rank to
/// another meets the k-th receive there. -1: it has none, or its record is missing.
std::vector<int> other_ends(const Timeline& timeline);

/// The bytes of a category that are alive on a rank from time `seconds` on. Lists of samples are in
/// the order of time.
struct MemorySample {
  int rank = 0;
  double seconds = 0;
  std::string category;
  std::int64_t bytes = 0;
};

}  // namespace plangrad::parallel
