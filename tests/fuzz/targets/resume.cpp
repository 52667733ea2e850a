// Command lines of train_gpt that continue a run, a word a line, among variables of a launcher,
// NAME=VALUE a line. The checkpoint is the same for all inputs.
// Not here: damaged checkpoints (checkpoint.cpp).
#include <cstdlib>

#include "parallel/transports/launch.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/program.h"

namespace plangrad::fuzz {

std::vector<std::string> seeds() {
  write_checkpoint(folder() / "run/checkpoint");
  return {joined({"", "--steps\n2147483647\n--stop-after\n2147483647\n--save-every\n1\n"}),
          joined({"", "--at\n3\n--out\nx\n--keep\n2147483647\n--evaluate-every\n2147483647\n"}),
          joined({"", "--stages\n2\n--microbatches\n2\n--schedule\n1f1b\n--codec\nnone\n"}),
          joined({"", "--ranks\n2\n--reduction\nring\n--check\n3\n--learning-rate=1e-3\n"}),
          joined({"RANK=1\nWORLD_SIZE=2\n", "--transport\nmpi\n--validation\nx\n"}),
          joined({"SLURM_PROCID=0\nSLURM_NTASKS=4\nSLURM_JOB_ID=7\n", "--learning-rate\n0.5\n"})};
}

namespace {

// Other variables may be those of the allocator or of the fuzzer.
constexpr const char* launchers_begin[] = {
    "RANK", "WORLD_SIZE", "LOCAL_", "SLURM_", "OMPI_COMM_WORLD_", "PMI_", "MPI_LOCAL"};

/// Variables of the process, until this goes.
struct Environment {
  std::vector<std::string> names;

  explicit Environment(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      const std::size_t end = std::min(line.find('='), line.size());
      const std::string name = line.substr(0, end),
                        value = line.substr(std::min(end + 1, line.size()));
      const bool is_launcher = std::ranges::any_of(
          launchers_begin, [&](const char* begin) { return name.starts_with(begin); });
      if (is_launcher && ::setenv(name.c_str(), value.c_str(), 1) == 0) names.push_back(name);
    }
  }
  ~Environment() {
    for (const std::string& name : names) ::unsetenv(name.c_str());
  }
};

}  // namespace

void read_input(const std::string& input) {
  const std::vector<std::string> parts = parts_of(input, 2);
  const Environment environment(lines_of(parts[0]));
  // A run that continues in its own folder is locked, on disk: slow, and the same for all inputs.
  std::vector<std::string> words{"--resume", (folder() / "run").string(), "--out", "new"};
  for (const std::string& word : lines_of(parts[1])) words.push_back(word);
  const examples::GptRun* run = parsed(words);
  if (!run) return;
  const auto started = parallel::rank_environment();
  lay_out(*run, started && run->transport != "threads" ? started->size : 0);
}

}  // namespace plangrad::fuzz
