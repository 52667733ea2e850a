// train_gpt as several processes under mpirun, if this build has MPI.
// Not here: what ranks do, whatever they are (ranks_test.cpp), nor devices (device_runs_test.cpp).
#include <signal.h>

#include <regex>

#include "nn/checkpoint/file.h"
#include "parallel/session/agreement.h"
#include "tests/examples/processes.h"
#include "tests/examples/runs.h"

#if PLANGRAD_MPI

using namespace plangrad::tests;

namespace {

const Words model{"--layers", "2", "--batch", "12"};

/// Begins a command of mpirun that leaves its processes half a minute after a signal, as a busy
/// machine may need ten seconds.
const Words given_time{"/usr/bin/env", "OMPI_MCA_odls_base_sigkill_timeout=30",
                       "PRTE_MCA_odls_base_sigkill_timeout=30"};

}  // namespace

TEST_CASE("ranks that are processes give the bits of ranks that are threads") {
  Runs runs{model + Words{"--stages", "2", "--data-parallel", "2", "--microbatches", "3"}};
  const Words mpi{"--transport", "mpi"};
  runs.train("threads");
  succeeded(mpirun(processes(4, runs.words("processes", mpi + Words{"--check", "2"}))));
  runs.check_same("threads", "processes");
  CHECK(summary_of(runs.path("processes"))["peak_bytes"].size() == 4);

  runs.train("parts", {"--stop-after", "3"});
  const Words resume{"train_gpt", "--resume", runs.path("parts")};
  REQUIRE(mpirun(processes(4, resume + mpi)).status == 0);
  runs.check_same("threads", "parts");
}

TEST_CASE("mpirun of one process trains on one rank") {
  Runs runs{model};
  runs.train("thread");
  succeeded(mpirun(processes(1, runs.words("process", {"--transport", "mpi"}))));
  runs.check_same("thread", "process");
}

TEST_CASE("processes encode and go by hosts as threads do") {
  const Words wide{"--layers", "2", "--width", "32", "--batch", "12", "--ranks", "4"};
  const Words flags[] = {
      {"--codec", "adaptive:64:2"},
      {"--codec", "quantize:4", "--reduction", "hierarchical", "--ranks-per-host", "2"}};
  for (const Words& more : flags) {
    CAPTURE(more);
    Runs runs{wide + Words{"--schedule", "data"} + more};
    runs.train("threads");
    succeeded(mpirun(processes(4, runs.words("processes", {"--transport", "mpi"}))));
    runs.check_same("threads", "processes");
  }
  // All of this machine have one name.
  Runs runs{wide + Words{"--schedule", "data", "--reduction", "hierarchical"}};
  Finished refused = mpirun(processes(4, runs.words("new", {"--transport", "mpi"})));
  CHECK(refused.status != 0);
  CHECK_THAT(refused.errors, Contains("--reduction hierarchical: no group"));
  CHECK_FALSE(std::filesystem::exists(runs.path("new")));
}

TEST_CASE("processes that don't know of each other, or differ, are refused before they write") {
  Runs runs{model + Words{"--stages", "2"}};
  Words mpi = runs.words("new", {"--transport", "mpi"});
  auto check = [&](const Finished& result, const Words& parts) {
    CHECK(result.status != 0);
    CHECK(result.output.empty());
    for (const std::string& part : parts) CHECK_THAT(result.errors, Contains(part));
    CHECK_FALSE(std::filesystem::exists(runs.path("new")));
  };
  check(run(mpi), {"error: --transport mpi: this process was started alone"});
  check(mpirun(processes(1, mpi)), {"1 rank: the schedule 1f1b with --stages 2"});
  check(mpirun(processes(2, runs.words("new"))),
        {"error: this process is one of 2 that ", "add --transport mpi"});
  // Processes of one program, since Open MPI 5 of Debian 13 can't start several.
  auto rank_1_adds = [&](const std::string& flag, const std::string& value) {
    return mpirun(
        processes(2, mpi,
                  {"/bin/sh", "-c", "[ " + own_rank + " = 0 ] || set -- \"$@\" $0; exec \"$@\"",
                   flag + " " + value}));
  };
  for (const Words& more : {Words(),
                            {"--heads", "3"},
                            {"--resume", runs.path("none")},
                            {"--out", runs.data + "/out"},
                            {"--out", runs.path("no/run")}}) {
    const Finished wrong = mpirun(processes(3, mpi + more));  // for two stages
    check(wrong, {});
    check_once(wrong, 2, "error: ");
  }
  for (const auto& [flag, value] :
       {std::pair("--seed", "5"), std::pair("--reduction", "hierarchical")}) {
    const Finished differs = rank_1_adds(flag, value);
    check(differs, {flag});
    check_once(differs, 2, "rank 1 was started with another ");
  }
  runs.train("one");
  runs.train("two", {"--seed", "5"});
  mpi = mpi + Words{"--from", runs.path("one/huggingface")};
  check_once(rank_1_adds("--from", runs.path("two/huggingface")), 2,
             "rank 1 was started with another /from/model.safetensors than rank 0: ");
  CHECK_FALSE(std::filesystem::exists(runs.path("new")));
  const Finished lacks = rank_1_adds("--data", runs.path("none"));
  check(lacks, {"error of rank 1: there is no file " + runs.path("none")});
  if (!kills_at_once()) CHECK(lacks.status == 2);
  const plangrad::parallel::FolderLock held(runs.path("held"));
  check_once(mpirun(processes(2, runs.words("held", {"--transport", "mpi"}))), 2,
             "another run writes to " + runs.path("held"));
}

TEST_CASE("when a process is killed, every other one ends with its report, or was told before") {
  Runs runs{model + Words{"--stages", "3", "--steps", "1000000", "--evaluate-every", "0"}};
  const std::string id = runs.path("process");
  Running job(mpirun_words(processes(3, runs.words("run", {"--transport", "mpi"}), noting_id(id))));
  wait_for_steps(runs.path("run"), 6);
  REQUIRE(::kill(std::stoi(plangrad::nn::read_file(id + "1")), SIGKILL) == 0);
  Finished result = job.finish();
  INFO(result.errors);
  CHECK(result.status != 0);
  const std::string note = "note: MPICH's mpirun kills all ranks as soon as one dies";
  const bool told = result.errors.find(note) != std::string::npos;
  CHECK(told == kills_at_once());
  if (told) return;
  for (const std::string rank : {"0", "2"})
    CHECK(std::regex_search(
        result.errors, std::regex("(^|\\n)rank " + rank + ": [^\\n]*told to stop \\(SIGTERM\\)")));
}

TEST_CASE("when the process of rank 0 is killed, another that holds all weights saves them") {
  if (kills_at_once()) SKIP_TEST("MPICH's mpirun gives no time");
  Runs runs{model + Words{"--data-parallel", "2", "--steps", "8"}};
  const Finished lost =
      run(given_time +
          mpirun_words(processes(2, runs.words("run", {"--transport", "mpi", "--lose", "0@5"}))));
  INFO(lost.errors);
  CHECK(lost.status != 0);
  CHECK_THAT(lost.errors, Contains("update 4 is saved, as all its weights are still here"));
  runs.resume("run", {"--transport", "threads"});
  runs.train("whole");
  const bool same_weights = weights_of(runs.path("whole")) == weights_of(runs.path("run"));
  CHECK(same_weights);
}

#if PLANGRAD_PRELOADS
TEST_CASE("when processes find that a message changed its bits, none of them saves what it holds") {
  Runs runs{model + Words{"--data-parallel", "2", "--transport", "mpi"}};
  const Words words = runs.words("run", {"--check", "2"});
  const Words flips{"/usr/bin/env", "LD_PRELOAD=" + program("libflip_received.so")};
  const Finished ended = mpirun(processes(1, words) + Words{":"} + processes(1, words, flips));
  INFO(ended.errors);
  CHECK(ended.status != 0);
  CHECK_THAT(ended.errors, Contains("--check: a silent error after update 2") &&
                               Contains("resume the last checkpoint, without that machine"));
  CHECK_FALSE(std::filesystem::exists(runs.path("run/checkpoint/manifest.json")));
}
#endif

TEST_CASE("a signal to any one of the processes makes all of them save and stop") {
  const std::pair<std::string, int> cases[] = {{"1f1b", SIGINT}, {"2bw", SIGTERM}};
  for (const auto& [schedule, signal] : cases) {
    CAPTURE(schedule, signal);
    Runs runs{model + Words{"--stages", "2", "--microbatches", "2", "--schedule", schedule,
                            "--steps", "1000000", "--evaluate-every", "0"}};
    const std::string id = runs.path("process"), out = runs.path("run");
    Running job(
        mpirun_words(processes(2, runs.words("run", {"--transport", "mpi"}), noting_id(id))));
    wait_for_steps(out, 6);
    REQUIRE(::kill(std::stoi(plangrad::nn::read_file(id + "1")), signal) == 0);
    const Finished result = job.finish();
    INFO(result.errors);
    CHECK(result.status == 128 + signal);
    CHECK_THAT(result.output, Contains("interrupted after "));
    CHECK(step_of(out) == static_cast<std::int64_t>(metrics_of(out).size()));
  }
}

TEST_CASE("processes that mpirun tells to save do so, and stop") {
  Runs runs{model + Words{"--stages", "2", "--steps", "1000000", "--evaluate-every", "0"}};
  const std::string out = runs.path("run");
  const Words mpi{"--transport", "mpi"};
  Running job(mpirun_words(processes(2, runs.words("run", mpi))));
  wait_for_steps(out, 6);
  job.signal(SIGUSR1);
  const Finished result = job.finish();
  INFO(result.errors);
  CHECK(result.status == 128 + SIGUSR1);
  CHECK_THAT(result.output, Contains("interrupted after "));
  CHECK(step_of(out) == static_cast<std::int64_t>(metrics_of(out).size()));
  const Words resume{"train_gpt", "--resume", out, "--steps", "1000000", "--stop-after", "1"};
  CHECK(mpirun(processes(2, resume + mpi)).status == 0);
}

TEST_CASE("Ctrl-C at mpirun saves, if mpirun gives its processes time for that") {
  if (kills_at_once()) SKIP_TEST("MPICH's mpirun gives no time");
  Runs runs{model + Words{"--stages", "2", "--steps", "1000000", "--evaluate-every", "0"}};
  Running hasty(mpirun_words(processes(2, runs.words("hasty", {"--transport", "mpi"}))));
  wait_for_steps(runs.path("hasty"), 6);
  hasty.signal(SIGINT);
  CHECK_THAT(hasty.finish().errors, Contains("mpirun kills it in a second; to give it longer"));
  const std::string out = runs.path("run");
  Running job(given_time + mpirun_words(processes(2, runs.words("run", {"--transport", "mpi"}))));
  wait_for_steps(out, 6);
  job.signal(SIGINT);
  const Finished result = job.finish();
  INFO(result.errors);
  CHECK(result.status != 0);
  CHECK(step_of(out) == static_cast<std::int64_t>(metrics_of(out).size()));
}

#endif
