// A table of the launchers' variables. The first launcher of the table whose rank is set counts:
// Slurm's variables are still there below an mpirun that it started.
// Chapter 04.
#include "parallel/transports/rank_environment.h"

#include <unistd.h>

#include <charconv>
#include <cstring>
#include <map>

#include "autograd/error.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {
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

/// Reads a number; -1 if the launcher has no such variable, or has not set it.
int number(const Variable& variable, const char* name) {
  const char* value = name ? variable(name) : nullptr;
  if (!value) return -1;
  int result = 0;
  const char* end = value + std::strlen(value);
  auto [stop, error] = std::from_chars(value, end, result);
  PG_CHECK(error == std::errc() && stop == end && stop != value, "environment variable ", name,
           " is '", value, "'; expected a number");
  return result;
}

/// throws: Error unless 0 <= rank < size
void check_within(const char* rank_name, int rank, const char* size_name, int size) {
  PG_CHECK(rank >= 0 && rank < size, "environment variables ", rank_name, "=", rank, " and ",
           size_name, "=", size, " contradict each other; expected a rank from 0 to size - 1");
}

}  // namespace

std::optional<RankEnvironment> rank_environment(const Variable& variable) {
  bool batch_script = variable("SLURM_JOB_ID") && !variable("SLURM_STEP_ID");
  for (const Launcher& launcher : launchers) {
    if (!variable(launcher.rank)) continue;
    if (std::string(launcher.name) == "Slurm" && batch_script) continue;
    PG_CHECK(variable(launcher.size), "environment variable ", launcher.rank, " is set and ",
             launcher.size, " is not; set both or neither");
    RankEnvironment found{launcher.name, number(variable, launcher.rank),
                          number(variable, launcher.size), number(variable, launcher.local_rank),
                          number(variable, launcher.local_size)};
    check_within(launcher.rank, found.rank, launcher.size, found.size);
    if (found.local_rank != -1 && found.local_size != -1)
      check_within(launcher.local_rank, found.local_rank, launcher.local_size, found.local_size);
    if (found.size > 1) return found;
  }
  return std::nullopt;
}

std::string host_name() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::vector<int> host_numbers(const std::vector<std::string>& names) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& name : names)
    hosts.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return hosts;
}

std::vector<int> hosts_of_ranks(Transport& transport, double timeout) {
  const std::string name = host_name();
  PG_CHECK(!name.empty(),
           "this host doesn't tell its name; say with --ranks-per-host which ranks share one");
  return host_numbers(all_gather_bytes(transport, name, timeout));
}

std::vector<int> hosts_in_order(int ranks, int ranks_per_host) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / ranks_per_host);
  return hosts;
}

}  // namespace plangrad::parallel
