// What launchers tell a process by variables of its environment, NAME=VALUE a line.
// Not here: a run that is resumed among such variables (resume.cpp).
#include "parallel/transports/launch.h"

#include <map>

#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

std::vector<std::string> seeds() {
  return {
      "OMPI_COMM_WORLD_RANK=3\nOMPI_COMM_WORLD_SIZE=8\nOMPI_COMM_WORLD_LOCAL_RANK=1\n"
      "OMPI_COMM_WORLD_LOCAL_SIZE=2\n",
      "PMI_RANK=1\nPMI_SIZE=4\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2\n",
      "SLURM_JOB_ID=77\nSLURM_STEP_ID=0\nSLURM_PROCID=5\nSLURM_NTASKS=6\nSLURM_LOCALID=1\n",
      "SLURM_JOB_ID=77\nSLURM_PROCID=0\nSLURM_NTASKS=4\nOMPI_COMM_WORLD_RANK=0\n"
      "OMPI_COMM_WORLD_SIZE=2\n",
      "RANK=2\nWORLD_SIZE=4\nLOCAL_RANK=0\nLOCAL_WORLD_SIZE=2\n"};
}

void read_input(const std::string& input) {
  std::map<std::string, std::string, std::less<>> variables;
  for (std::size_t at = 0; at < input.size();) {
    const std::size_t end = std::min(input.find('\n', at), input.size());
    const std::size_t middle = std::min(input.find('=', at), end);
    const std::size_t value = std::min(middle + 1, end);
    variables[input.substr(at, middle - at)] = input.substr(value, end - value);
    at = end + 1;
  }
  const auto found = parallel::rank_environment([&](std::string_view name) -> const char* {
    const auto variable = variables.find(name);
    return variable == variables.end() ? nullptr : variable->second.c_str();
  });
  if (!found) return;
  must(found->rank >= 0 && found->rank < found->size && found->size > 1, "no rank of several");
  must(found->local_rank >= -1 && found->local_size >= -1, "a rank's place is below zero");
  must(variables.contains(found->variable), "a rank follows from no variable");
}

}  // namespace plangrad::fuzz
