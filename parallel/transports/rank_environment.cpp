// A table of the launchers' variables. The first launcher of the table whose rank is set counts:
// Slurm's variables are still there below an mpirun that it started.
// Chapter 04.
#include "parallel/transports/rank_environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "autograd/error.h"

namespace paragrad::parallel {
namespace {

struct Launcher {
  const char *name, *rank, *size, *local_rank, *local_size;
};

constexpr Launcher launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};

int number(const char* name, const char* value) {
  int result = 0;
  const char* end = value + std::strlen(value);
  auto [stop, error] = std::from_chars(value, end, result);
  PG_CHECK(error == std::errc() && stop == end && stop != value, "environment variable ", name,
           " is '", value, "'; expected a number");
  return result;
}

int number_or_unknown(const Variable& variable, const char* name) {
  const char* value = name ? variable(name) : nullptr;
  return value ? number(name, value) : -1;
}

/// throws: Error unless 0 <= rank < size
void check_within(const char* rank_name, int rank, const char* size_name, int size) {
  PG_CHECK(rank >= 0 && rank < size, "environment variables ", rank_name, "=", rank, " and ",
           size_name, "=", size, " contradict each other; expected a rank from 0 to size - 1");
}

}  // namespace

std::optional<RankEnvironment> rank_environment() {
  return rank_environment([](const char* name) { return std::getenv(name); });
}

std::optional<RankEnvironment> rank_environment(const Variable& variable) {
  bool batch_script = variable("SLURM_JOB_ID") && !variable("SLURM_STEP_ID");
  for (const Launcher& launcher : launchers) {
    const char* rank = variable(launcher.rank);
    if (!rank || (std::string(launcher.name) == "Slurm" && batch_script)) continue;
    const char* size = variable(launcher.size);
    PG_CHECK(size, "environment variable ", launcher.rank, " is set and ", launcher.size,
             " is not; set both or neither");
    RankEnvironment found{launcher.name, number(launcher.rank, rank), number(launcher.size, size),
                          number_or_unknown(variable, launcher.local_rank),
                          number_or_unknown(variable, launcher.local_size)};
    check_within(launcher.rank, found.rank, launcher.size, found.size);
    if (found.local_rank != -1 && found.local_size != -1)
      check_within(launcher.local_rank, found.local_rank, launcher.local_size, found.local_size);
    if (found.size > 1) return found;
  }
  return std::nullopt;
}

}  // namespace paragrad::parallel
