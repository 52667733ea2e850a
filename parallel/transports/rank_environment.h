// Rank environment: what mpirun, srun or torchrun tell a process that is one of several. A program
// that was started so and went on alone would train the same model several times: it asks here.
// Not here: talking to the others (mpi_transport). Chapter 04.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace paragrad::parallel {

struct RankEnvironment {
  std::string launcher;  ///< "Open MPI", "MPICH", "Slurm" or "torchrun"
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  ///< among those on this host; -1: not told
};

/// One variable of the environment; null where it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Nothing if the process was started alone, or as the only one.
/// A Slurm batch script sees the variables of its whole job without being one of its tasks; it is
/// known by having a job but no step.
/// throws: Error if a value is not a number, or the values contradict each other
std::optional<RankEnvironment> rank_environment();
std::optional<RankEnvironment> rank_environment(const Variable& variable);

}  // namespace paragrad::parallel
