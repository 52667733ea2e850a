// Rank environment: each launcher's variables, and values that cannot be. Chapter 04.
#include "parallel/transports/launch.h"

#include <map>
#include <sstream>

#include "tests/catch.h"
#include "tests/error_of.h"

using namespace plangrad::parallel;

namespace {

std::optional<RankEnvironment> found(const std::map<std::string, std::string>& variables) {
  return rank_environment([&](const char* name) -> const char* {
    auto variable = variables.find(name);
    return variable == variables.end() ? nullptr : variable->second.c_str();
  });
}

void check(const std::optional<RankEnvironment>& told, const std::string& launcher, int rank,
           int size, int local_rank, int local_size) {
  REQUIRE(told);
  CHECK(told->launcher == launcher);
  CHECK(told->rank == rank);
  CHECK(told->size == size);
  CHECK(told->local_rank == local_rank);
  CHECK(told->local_size == local_size);
}

}  // namespace

TEST_CASE("rank environment: every launcher", "[rank_environment]") {
  check(found({{"OMPI_COMM_WORLD_RANK", "3"},
               {"OMPI_COMM_WORLD_SIZE", "8"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
        "Open MPI", 3, 8, 1, 2);
  check(found({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), "MPICH", 0, 2, -1, -1);
  check(found({{"PMI_RANK", "1"},
               {"PMI_SIZE", "4"},
               {"MPI_LOCALRANKID", "1"},
               {"MPI_LOCALNRANKS", "2"}}),
        "MPICH", 1, 4, 1, 2);
  check(found({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "1"}}), "Slurm", 5,
        6, 1, -1);
  check(found({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}),
        "torchrun", 2, 4, 0, 2);
}

TEST_CASE("rank environment: not one of several", "[rank_environment]") {
  CHECK_FALSE(found({}));
  CHECK_FALSE(found({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK_FALSE(found({{"WORLD_SIZE", "4"}}));
  // A batch script: tasks were asked for, but this process is none of them.
  CHECK_FALSE(found({{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  CHECK_FALSE(found({{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}}));
  CHECK(found({{"SLURM_JOB_ID", "77"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_PROCID", "0"},
               {"SLURM_NTASKS", "4"}}));
}

TEST_CASE("rank environment: mpirun inside a Slurm job counts", "[rank_environment]") {
  check(found({{"SLURM_PROCID", "0"},
               {"SLURM_NTASKS", "1"},
               {"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "4"}}),
        "Open MPI", 1, 4, -1, -1);
}

TEST_CASE("rank environment: values that cannot be", "[rank_environment]") {
  CHECK_THROWS_WITH(found({{"RANK", "one"}, {"WORLD_SIZE", "2"}}),
                    Contains("RANK is 'one', expected a number"));
  CHECK_THROWS_WITH(found({{"RANK", "1"}, {"WORLD_SIZE", "2x"}}), Contains("WORLD_SIZE is '2x'"));
  CHECK_THROWS_WITH(found({{"RANK", ""}, {"WORLD_SIZE", "2"}}),
                    Contains("RANK is ''") && Contains("env -u RANK ..."));
  CHECK_THROWS_WITH(found({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                    Contains("RANK=2 and WORLD_SIZE=2 contradict each other"));
  CHECK_THROWS_WITH(found({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), Contains("PMI_RANK=-1"));
  CHECK_THROWS_WITH(found({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), Contains("contradict"));
  CHECK_THROWS_WITH(found({{"PMI_RANK", "1"}}), Contains("PMI_RANK is set and PMI_SIZE is not"));
  CHECK_THROWS_WITH(
      found({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
      Contains("LOCAL_RANK=2 and LOCAL_WORLD_SIZE=2"));
  CHECK_THROWS_WITH(found({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "-2"}}),
                    Contains("MPI_LOCALRANKID is '-2'"));
}

TEST_CASE("rank environment: the advice is enough, whatever launchers have left behind") {
  const std::pair<const char*, const char*> sets[] = {
      {"RANK", "WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_NTASKS"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}};
  // Each launcher has set neither, its rank alone, or both to one of these.
  const std::vector<std::string> values{"", "-", "x 2", "0 x", "2 2", "1 2"};
  for (int choice = 0; choice < 6 * 6 * 6 * 6; ++choice) {
    std::map<std::string, std::string> variables{{"LOCAL_RANK", "x"}, {"MPI_LOCALRANKID", "x"}};
    int rest = choice;
    for (const auto& [rank, size] : sets) {
      const std::string& value = values[rest % 6];
      rest /= 6;
      if (!value.empty()) variables[rank] = value.substr(0, 1);
      if (value.size() > 1) variables[size] = value.substr(2);
    }
    const std::string advice = plangrad::tests::error_of([&] { (void)found(variables); });
    std::istringstream words(advice.substr(std::min(advice.size(), advice.find(": env ") + 6)));
    for (std::string word; words >> word && word == "-u" && words >> word;) variables.erase(word);
    if (!advice.empty()) CHECK_FALSE(found(variables));
  }
}
