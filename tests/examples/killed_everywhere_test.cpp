// A run that is killed before or in the midst of any call that changes files loses nothing: it
// resumes from a checkpoint at least as new as the one that it began with, to the same bits. A
// killed export leaves the earlier one or its own, and the next one completes it.
// Not here: kills at chance moments (runs_test.cpp), and damaged files.
#include <signal.h>

#include "examples/elastic/elastic.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/observers/metric_files.h"
#include "tests/examples/processes.h"
#include "tests/examples/runs.h"

#if PLANGRAD_PRELOADS  // not with sanitizers, which want to be loaded first

using namespace plangrad::examples;
using namespace plangrad::tests;

namespace {

/// A run of six updates, of which three are done.
///   process: the one of two under mpirun that is killed; -1: all ranks are threads of one process
struct Kills {
  explicit Kills(Words layout, int process = -1) : runs(std::move(layout)), process(process) {
    runs.train("begun", {"--stop-after", "3"});
    copy("whole");
    runs.resume("whole");
    copy("counted");
    REQUIRE(go_on("counted", "KILL_COUNT=" + runs.path("calls")).status == 0);
    points = std::stoi(plangrad::nn::read_file(runs.path("calls")));
  }

  void copy(const std::string& name) const {
    std::filesystem::remove_all(runs.path(name));
    std::filesystem::copy(runs.path("begun"), runs.path(name),
                          std::filesystem::copy_options::recursive);
  }
  /// Resumes a run and saves after each update.
  Finished go_on(const std::string& name, const std::string& setting) const {
    const Words words{program("train_gpt"), "--resume", runs.path(name), "--save-every", "1"};
    const Words killed =
        Words{"/usr/bin/env", "LD_PRELOAD=" + program("libkill_before.so"), setting} + words;
    if (process < 0) return run(killed);
    const Words one{"-n", "1"}, mpi{"--transport", "mpi"}, next{":"};
    return mpirun(process == 0 ? one + killed + mpi + next + one + words + mpi
                               : one + words + mpi + next + one + killed + mpi);
  }
  void check(int point) const {
    CAPTURE(point);
    copy("killed");
    const Finished killed = go_on("killed", "KILL_AT=" + std::to_string(point));
    CHECK((process < 0 ? killed.status == 128 + SIGKILL : killed.status != 0));
    const std::string folder = runs.path("killed") + "/checkpoint";
    using namespace plangrad::nn;
    CHECK(find_intact(folder).checkpoint->step() >= 3);
    const Finished resumed =
        run({"train_gpt", "--resume", runs.path("killed"), "--transport", "threads"});
    INFO(resumed.errors);
    if (resumed.status == 0) return runs.check_same("whole", "killed");
    // Killed after its last save, it lacks at most its validation, maybe the half of that line.
    CHECK_THAT(resumed.errors, Contains("has done 6 of its 6 updates"));
    int updates = 0;
    plangrad::parallel::read_metrics(runs.path("killed") + "/metrics.jsonl",
                                     [&](const auto& line) { updates += line.contains("loss"); });
    CHECK(updates == 6);
    const bool same_weights = weights_of(runs.path("whole")) == weights_of(runs.path("killed"));
    CHECK(same_weights);
  }

  Runs runs;
  int process;
  int points = 0;
};

const Words layouts[] = {{}, {"--layers", "2", "--stages", "2", "--data-parallel", "2"}};

}  // namespace

TEST_CASE("a run that is killed before a call that changes files resumes to the same bits") {
  const Kills kills(layouts[0]);
  REQUIRE(kills.points > 100);
  for (int i = 0; i < 10; ++i) kills.check((i * kills.points + kills.points / 2) / 10);
}

TEST_CASE("an export that is killed leaves a whole one, or the next export restores it") {
  const Runs runs;
  runs.train("run", {"--stop-after", "3"});
  const std::string from = runs.path("run"), own = runs.path("own");
  const Words words{"checkpoint", "export", from, own};
  runs.succeed(words);
  runs.folder.write("own/README.md", "mine");
  const auto before = files_in(own);
  for (const std::string exchange : {"NO_EXCHANGE=1", "EXCHANGE=1"}) {
    const auto killed = [&](const std::string& setting) {
      return run({"/usr/bin/env", "LD_PRELOAD=" + program("libkill_before.so"), exchange, setting,
                  program("checkpoint"), "export", from, own});
    };
    REQUIRE(killed("KILL_COUNT=" + runs.path("calls")).status == 0);
    const int points = std::stoi(plangrad::nn::read_file(runs.path("calls")));
    REQUIRE(points > 30);
    for (int point = points - 30; point < points; ++point) {  // where the folders are exchanged
      CAPTURE(exchange, point);
      CHECK(killed("KILL_AT=" + std::to_string(point)).status == 128 + SIGKILL);
      const bool is_whole = run({"checkpoint", "verify", own}).status == 0;
      CHECK((is_whole || std::filesystem::exists(own + ".plangrad-partial.old/model.safetensors")));
      runs.succeed(words);
      CHECK(files_in(own) == before);
      CHECK_FALSE(std::filesystem::exists(own + ".plangrad-partial"));
    }
  }
}

TEST_CASE("a signal before training ends the program, which leaves nothing") {
  const Runs runs;
  Words words = runs.words("");
  plangrad::examples::remove_flag(words, "--out");
  words[0] = program(words[0]);
  const Words before{"/usr/bin/env", "--chdir=" + runs.folder / "",
                     "LD_PRELOAD=" + program("libkill_before.so"), "KILL_AT=0",
                     "KILL_BY=" + std::to_string(SIGTERM)};
  CHECK(run(before + words).status == 128 + SIGTERM);
  CHECK_FALSE(std::filesystem::exists(runs.path("runs")));
}

namespace {

void kill_everywhere(const Kills& kills) {
  WARN(kills.points << " calls");
  for (int point = 0; point < kills.points - 8; ++point) kills.check(point);  // threads vary
}

}  // namespace

TEST_CASE("killed before each call that changes files; takes minutes", "[.campaign]") {
  for (const Words& layout : layouts) {
    CAPTURE(layout);
    kill_everywhere(Kills(layout));
  }
}

#if PLANGRAD_MPI
TEST_CASE("processes killed before each call that changes files; takes minutes", "[.campaign]") {
  for (int process : {0, 1}) {
    CAPTURE(process);
    kill_everywhere(Kills({"--layers", "2", "--stages", "2"}, process));
  }
}
#endif

#endif
