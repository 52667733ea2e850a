// What programs say of themselves: --help, versions, suggestions, statuses.

#include "tests/examples/programs.h"
#include "tests/folders.h"

using namespace plangrad::tests;

namespace {

/// Programs, and commands of them, with a flag of each.
const std::vector<std::pair<Words, std::string>> described{
    {{"train_gpt"}, "--zero N"},
    {{"train_resnet"}, "--samo"},
    {{"sample_gpt"}, "--top-k N"},
    {{"train_vocabulary"}, "--size N"},
    {{"plan"}, "--version"},
    {{"plan", "show"}, "--codec NAME"},
    {{"plan", "verify"}, "--forward X"},
    {{"plan", "simulate"}, "--slowness X,X,..."},
    {{"plan", "search"}, "rtx3090x8, summit, v100-aws; or a"},
    {{"plan", "search"}, "--order"},
    {{"plan", "search"}, "micro: sequences of a microbatch"},
    {{"plan", "machine"}, "--measure"},
    {{"plan", "draw"}, "--out FILE"},
    {{"plan", "compare"}, "--json"},
    {{"plan", "lower"}, "print the version"},
    {{"plan", "rows"}, "--priorities X,X,..."},
    {{"plan", "order"}, "--most X,X,..."},
    {{"plan", "place"}, "--devices N"},
    {{"checkpoint", "verify"}, "print this help"}};

void check_misused(const Words& words, const std::string& part) {
  CAPTURE(words);
  const Finished result = run(words);
  check_ended(result, 2, part);
  CHECK(result.output.empty());
  CHECK(result.errors.starts_with("error: "));
}

/// The longest line of --help above its examples, on a terminal that a shell's command sets up.
std::size_t longest_line(const std::string& setup, Words words) {
  words[0] = program(words[0]);
  const Words shell{"/bin/sh", "-c", setup + " && exec \"$@\" --help", "sh"};
  const std::string all = run_on_terminal(shell + words).output;
  REQUIRE(all.find("\nExample") != all.npos);
  std::istringstream lines(all.substr(0, all.find("\nExample")));
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.find('\r'));
  return longest;
}

}  // namespace

TEST_CASE("help has lines that fit, all flags with their defaults, and examples") {
  for (const auto& [words, flag] : described) {
    CAPTURE(words);
    const Finished shown = succeeded(run(words + Words{"--help"}));
    CHECK(shown.errors.empty());
    CHECK_THAT(shown.output, Contains("Usage: " + words[0]) && Contains(flag) && !Contains(".:\n"));
    CHECK_THAT(shown.output, Contains("\nExample"));
    CHECK(longest_line("true", words) <= 100);
    CHECK(longest_line("stty cols 80 <&1", words) <= 80);
    CHECK(longest_line("export COLUMNS=72", words) <= 72);
  }
  CHECK_THAT(run({"train_gpt", "--help"}).output, Contains("updates of the whole run (default: "));
  CHECK_THAT(run({"plan", "lower", "--help"}).output, Contains("Usage: plan lower [FLAGS] FILE\n"));
}

TEST_CASE("-h shows the flags that one needs first, and says where all are") {
  const std::string heading = "\nFirst flags; --help has all:\n";
  for (const Words& words :
       {Words{"train_gpt"}, {"train_resnet"}, {"plan", "draw"}, {"plan", "search"}}) {
    CAPTURE(words);
    const std::string brief = succeeded(run(words + Words{"-h"})).output;
    CHECK(std::count(brief.begin(), brief.end(), '\n') <= 45);
    CHECK_THAT(brief, Contains(heading) && !Contains("--codec"));
  }
  CHECK_THAT(run({"train_gpt", "-h"}).output, Contains("\n  --plan FILE "));
  CHECK_THAT(run({"sample_gpt", "-h"}).output, Contains("--top-k N") && !Contains(heading));
  const std::string brief = succeeded(run({"plan", "-h"})).output;
  CHECK(std::count(brief.begin(), brief.end(), '\n') <= 17);
  CHECK_THAT(brief, Contains("\n  compare    Prints the numbers of two plans side by side\n") &&
                        Contains("Go on with plan COMMAND -h"));
}

TEST_CASE("every program has a version, and commands are found by a near name") {
  for (const char* name : {"train_gpt", "train_resnet", "sample_gpt", "train_vocabulary", "plan",
                           "checkpoint", "elastic", "pipeline"}) {
    const Finished version = succeeded(run({name, "--version"}));
    CHECK(version.output.starts_with(std::string(name) + " of plangrad 0."));
  }
  CHECK_THAT(run({"elastic", "-h"}).output, Contains("Usage: elastic [FLAGS] PROGRAM [ITS FLAGS]"));
  CHECK(run({"plan", "show", "--version"}).output == run({"plan", "--version"}).output);
  CHECK_THAT(run({"pipeline", "--help"}).output, Contains("pipeline has no flags"));
  check_ended(run({"pipeline", "-V"}), 2, "pipeline has no flags");
  check_misused({"plan", "verfy"}, "there is no command verfy; did you mean verify?");
  check_misused({"plan"}, "no command given: use one of show, ");
  check_misused({"plan", "compare", "1f1b"}, "PLAN_B is required");
}

TEST_CASE("a mistyped name is suggested: flags, schedules, codecs, methods, devices") {
  const std::string data = "--data=/dev/null";
  check_misused({"train_gpt", "--schedual", "1f1b"},
                "no flag --schedual; did you mean --schedule?");
  check_misused({"train_gpt", "--widht=4"}, "no flag --widht; did you mean --width?");
  check_misused({"plan", "show", "--schedule", "cyclic-v3"}, "mean cyclic-v1 or cyclic-v2?");
  check_misused({"train_gpt", data, "--codec", "quantise:4"}, "did you mean quantize?");
  check_misused({"train_gpt", data, "--prune-method", "magnitud"}, "did you mean magnitude?");
  check_misused({"train_gpt", data, "--transport", "thread"}, "did you mean threads?");
  check_misused({"train_gpt", data, "--device", "cdua"}, "did you mean cuda?");
  check_misused({"plan", "show", "--shedule", "2bw"}, "--shedule; did you mean --schedule?");
  check_misused({"plan", "show", "--schedule", "2wb"}, "did you mean 2bw?");
  check_misused({"train_gpt", "stray"}, "nothing takes the word stray");
  check_misused({"train_gpt", "--lr", "0.1"}, "no flag --lr; did you mean --learning-rate?");
  check_misused({"train_gpt", "--batch-size=4"}, "no flag --batch-size; did you mean --batch?");
  check_misused({"plan", "drwa", "--stages", "4"}, "no command drwa; did you mean draw?");
  check_misused({"plan", "poster", "--otu", "x"}, "no flag --otu; did you mean --out?");
  check_misused({"plan", "list"}, "no command list; did you mean schedules?");
  check_misused({"checkpoint", "help"}, "no command help; did you mean --help?");
}

TEST_CASE("what all ranks of a launcher find wrong is printed by the first alone") {
  auto started = [](const char* rank, const Words& flags) {
    return run(Words{"/usr/bin/env", "OMPI_COMM_WORLD_SIZE=2",
                     "OMPI_COMM_WORLD_RANK=" + std::string(rank), program("train_gpt")} +
               flags);
  };
  check_ended(started("0", {"--schedual", "1f1b"}), 2, "did you mean --schedule?");
  // mpirun would have ended it before it tells
  check_ended(started("1", {"--schedual"}), 2, "error of rank 1: ");
  const Words alone{"--data", "/dev/null"};  // they would train the same model twice
  CHECK_THAT(started("0", alone).errors,
             Contains("Open MPI started, as OMPI_COMM_WORLD_RANK says; add --transport mpi, or "
                      "start it alone: env -u OMPI_COMM_WORLD_RANK train_gpt"));
  CHECK_THAT(run({"/usr/bin/env", "RANK=0", "WORLD_SIZE=4", "SLURM_PROCID=0", "SLURM_NTASKS=1",
                  program("train_gpt"), "--data", "/dev/null"})
                 .errors,
             Contains("use mpirun -n 4 train_gpt ... --transport mpi, or start it alone: "
                      "env -u SLURM_PROCID -u RANK train_gpt"));
}

TEST_CASE("no variable of a launcher turns an error into an abort, or into silence") {
  for (const char* name : {"plan", "train_gpt", "train_resnet", "train_vocabulary", "sample_gpt",
                           "checkpoint", "report", "elastic"})
    for (const Words& set :
         {Words{"RANK=0"}, Words{"RANK=abc", "WORLD_SIZE=2"}, Words{"PMI_RANK=5", "PMI_SIZE=2"},
          Words{"SLURM_PROCID=0"}, Words{"OMPI_COMM_WORLD_RANK=0"}}) {
      CAPTURE(name, set);
      check_ended(run(Words{"/usr/bin/env"} + set + Words{program(name), "--nope"}), 2, "error: ");
    }
  // Programs that are never ranks tell at once, whichever rank they are said to be.
  const Words second{"/usr/bin/env", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"};
  CHECK_THAT(run(second + Words{program("plan"), "show", "--nope"}).errors,
             Contains("error: there is no flag --nope"));
  CHECK_THAT(run({"/usr/bin/env", "RANK=0", program("train_gpt"), "--data", "/dev/null"}).errors,
             Contains("RANK is set and WORLD_SIZE is not; start this command") &&
                 Contains(": env -u RANK ..."));
}

TEST_CASE("bash completes flags, commands and schedules from what programs say") {
  auto completed = [](const Words& typed) {
    return run(Words{"/bin/bash", "-c",
                     "source \"$0\"; COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); "
                     "_plangrad \"$1\" \"${@: -1}\" \"${@: -2:1}\"; echo \"${COMPREPLY[*]}\"",
                     clone_path("examples/completion.bash"), program(typed[0])} +
               Words(typed.begin() + 1, typed.end()))
        .output;
  };
  CHECK_THAT(run({"plan", "schedules"}).output, Contains("\n2bw   ") && Contains("PipeDream-2BW)"));
  CHECK(completed({"plan", "sch"}) == "schedules\n");
  CHECK(completed({"plan", "show", "--schedule", "cyc"}) == "cyclic-v1 cyclic-v2\n");
  CHECK(completed({"plan", "compare", "1f"}) == "1f1b\n");
  CHECK(completed({"plan", "draw", "--cri"}) == "--critical-path\n");
  CHECK(completed({"train_gpt", "--prune-u"}) == "--prune-until\n");
  CHECK(completed({"checkpoint", "ver"}) == "verify\n");
}

TEST_CASE("words that no checkpoint can keep are refused before training") {
  check_misused({"train_gpt", "--data", "d\xe9.txt"}, "is not UTF-8");
  check_misused({"train_gpt", "--data", "/dev/null", "--stages", "100000"},
                "100000 stages: a GPT of --layers ");
}

TEST_CASE("bounds are written as users think of them") {
  check_misused({"elastic", "-n", "268435456", "ls"}, "-n: expected a whole number from 1 to");
  check_misused({"train_gpt", "--ranks", "10001"}, "expected a whole number from 1 to 10000");
  check_misused({"train_gpt", "--layers", "0"}, "expected a whole number, 1 or more, got 0");
  check_misused({"train_gpt", "--layers", "3000000000"}, "from 1 to 2147483647, got 3000000000");
  check_misused({"train_gpt", "--learning-rate", "0"}, "expected a number above 0, got 0");
  check_misused({"train_gpt", "--clip", "-1"}, "--clip: expected a number, 0 or more, got -1");
  check_misused({"train_gpt", "--dropout", "2"}, "expected a number from 0 to 0.99, got 2");
  check_misused({"train_gpt", "--zero", "4"}, "expected a whole number from 0 to 3, got 4");
}
