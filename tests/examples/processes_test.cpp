// train_gpt as several processes under mpirun, if this build has MPI.
// Not here: what ranks do, whatever they are (ranks_test.cpp).
#include "tests/examples/runs.h"

#if PARAGRAD_MPI

using namespace paragrad::tests;

namespace {

const Words model{"--layers", "2", "--batch", "12"};

/// mpirun with these arguments, as root too, and with more processes than cores.
Finished mpirun(const Words& arguments) {
  return run(Words{"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                   "OMPI_MCA_rmaps_base_oversubscribe=1", "MPIEXEC_TIMEOUT=120",
                   "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1", "mpirun"} +
             arguments);
}

/// `words`, which begin with train_gpt, as so many processes.
Words processes(int number, Words words) {
  words[0] = PARAGRAD_PROGRAM_DIR "/" + words[0];
  return Words{"-n", std::to_string(number)} + words;
}

}  // namespace

TEST_CASE("ranks that are processes give the bits of ranks that are threads") {
  Runs runs{model + Words{"--stages", "2", "--data-parallel", "2", "--microbatches", "3"}};
  const Words mpi{"--transport", "mpi"};
  runs.train("threads");
  Finished result = mpirun(processes(4, runs.words("processes", mpi)));
  INFO(result.errors);
  REQUIRE(result.status == 0);
  runs.check_same("threads", "processes");
  CHECK(summary_of(runs.path("processes"))["peak_bytes"].size() == 4);

  runs.train("parts", {"--stop-after", "3"});
  const Words resume{"train_gpt", "--resume", runs.path("parts")};
  REQUIRE(mpirun(processes(4, resume + mpi)).status == 0);
  runs.check_same("threads", "parts");
}

TEST_CASE("processes that don't know of each other, or differ, are refused before they write") {
  Runs runs{model + Words{"--stages", "2"}};
  const Words mpi = runs.words("new", {"--transport", "mpi"});
  auto check = [&](const Finished& result, const Words& parts) {
    CHECK(result.status != 0);
    CHECK(result.output.empty());
    for (const std::string& part : parts) CHECK_THAT(result.errors, Contains(part));
    CHECK_FALSE(std::filesystem::exists(runs.path("new")));
  };
  check(run(mpi), {"error: --transport mpi: this process was started alone"});
  check(mpirun(processes(2, runs.words("new"))),
        {"error: this process is one of 2 that ", "say --transport mpi"});
  check(mpirun(processes(1, mpi) + Words{":"} + processes(1, mpi + Words{"--seed", "5"})),
        {"rank 1 was started with another ", "--seed"});
}

#endif
