// The commands of programs as processes under mpirun.
// Not here: what they are run for.
#pragma once

#include "autograd/version.h"
#include "tests/examples/programs.h"

namespace plangrad::tests {

/// The command of mpirun with these arguments, as root too, and with more processes than cores.
inline Words mpirun_words(const Words& arguments) {
  return Words{"/usr/bin/env",
               "OMPI_ALLOW_RUN_AS_ROOT=1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
               "OMPI_MCA_rmaps_base_oversubscribe=1",  // Open MPI 4, and 5:
               "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
               "MPIEXEC_TIMEOUT=120",
               "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1",
               plangrad::autograd::mpirun()} +
         arguments;
}
inline Finished mpirun(const Words& arguments) { return run(mpirun_words(arguments)); }
/// Checks that one of the processes that share an error reports it.
inline void check_once(const Finished& ended, int status, const std::string& part) {
  check_ended(ended, status, part);
  CHECK(ended.errors.find(part) == ended.errors.rfind(part));
}
/// Whether it is MPICH's, which gives the others no time to report when a process is killed.
inline bool kills_at_once() {
  return mpirun({"--version"}).output.find("HYDRA") != std::string::npos;
}
/// The rank of a process, in a command of a shell.
inline const std::string own_rank = "${OMPI_COMM_WORLD_RANK-$PMI_RANK}";

/// Begins the command of a process that writes its number to the file that ends with its rank.
inline Words noting_id(const std::string& file) {
  return {"/bin/sh", "-c", "echo $$ >\"$0" + own_rank + "\"; exec \"$@\"", file};
}
/// `words`, which begin with train_gpt, as so many processes, which another program may start.
inline Words processes(int number, Words words, const Words& starter = {}) {
  words[0] = program(words[0]);
  return Words{"-n", std::to_string(number)} + starter + words;
}

}  // namespace plangrad::tests
