// The program elastic: what it starts again, what not, and what it says. Some tests give it another
// mpirun, a script, which ends as the real one may. Not here: ranks that are threads
// (elastic_runs_test.cpp). Chapter 15.
#include <iostream>

#include "examples/elastic/elastic.h"
#include "examples/elastic/run_copy.h"
#include "nn/checkpoint/checkpoint.h"
#include "tests/examples/processes.h"
#include "tests/examples/runs.h"

using namespace plangrad::examples;
using namespace plangrad::tests;

#if PLANGRAD_MPI
namespace {

/// The words of the program elastic, which starts two processes with train_gpt's words.
Words elastic_words(const Runs& runs, Words words, const Words& own = {}) {
  words[0] = program(words[0]);
  return Words{"/usr/bin/env",
               "OMPI_ALLOW_RUN_AS_ROOT=1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
               "OMPI_MCA_rmaps_base_oversubscribe=1",
               program("elastic"),
               "-n",
               "2",
               "--every",
               "2",
               "--memory",
               runs.folder / ""} +
         own + words;
}
Finished elastic(const Runs& runs, const Words& words, const Words& own = {}) {
  return run(elastic_words(runs, words, own));
}

/// Flags that give elastic a script as its mpirun. In the script, $memory is the run's folder in
/// memory, and the file "starts" has a line for each start.
Words scripted(const Runs& runs, const std::string& script) {
  runs.folder.write("script", "echo >>" + runs.path("starts") +
                                  "\nfor word; do case $word in --out=*) memory=${word#--out=};; "
                                  "esac; done\n" +
                                  script);
  return {"--mpirun", "sh " + runs.path("script")};
}
std::ptrdiff_t starts(const Runs& runs) {
  return std::ranges::count(plangrad::nn::read_file(runs.path("starts")), '\n');
}

std::int64_t saved(const Runs& runs, const std::string& name) {
  return plangrad::nn::Checkpoint(runs.path(name) + "/checkpoint").step();
}

}  // namespace

TEST_CASE("the program elastic starts processes again when one is killed") {
  const Runs runs{{"--data-parallel", "2", "--steps", "12", "--quiet"}};
  const Finished ended = succeeded(elastic(runs, runs.words("killed", {"--lose", "1@8"})));
  CHECK_THAT(ended.errors, Contains("elastic: a rank is lost after update "));
  CHECK_THAT(ended.errors, Contains("elastic: 1 loss; "));
  CHECK(saved(runs, "killed") == 12);
  CHECK(losses_by_update(runs.path("killed")).size() >= 11);  // one may be known to rank 1 alone
  runs.train("whole");
  const bool same_weights = weights_of(runs.path("whole")) == weights_of(runs.path("killed"));
  CHECK(same_weights);
  for (const auto& entry : std::filesystem::directory_iterator(runs.folder / ""))
    CHECK_THAT(entry.path().filename().string(), !Contains("plangrad-elastic"));
}

TEST_CASE("the program elastic starts nothing again that never began, and harms no other file") {
  const Runs runs{{"--data-parallel", "2", "--quiet"}};
  check_ended(elastic(runs, runs.words("none", {"--data", runs.path("missing.txt")})), 2,
              "before the first update: no rank is lost");
  CHECK_FALSE(std::filesystem::exists(runs.path("none")));
  check_ended(elastic(runs, runs.words("text.txt")), 2, "choose another with --out");
  CHECK(std::filesystem::is_regular_file(runs.data));
  runs.train("other");
  check_ended(elastic(runs, runs.words("other")), 2,
              "holds another run: continue that with --resume");
  CHECK(saved(runs, "other") > 0);
  const plangrad::parallel::FolderLock held(runs.path("held"));
  check_ended(elastic(runs, runs.words("held")), 2, "another run writes to ");
  CHECK(std::filesystem::exists(runs.path("held/checkpoint")));
  for (const Words& own :
       {Words{"--stop-after", "3"}, {"--save-every", "3"}, {"--transport", "threads"}})
    check_ended(elastic(runs, runs.words("stopped", own)), 2, "leave out " + own[0] + ": ");
  CHECK_FALSE(std::filesystem::exists(runs.path("stopped")));
}

TEST_CASE("a run of processes that diverges is not started again") {
  const Runs runs{{"--data-parallel", "2", "--steps", "12", "--quiet", "--evaluate-every", "0"}};
  runs.train("run", {"--stop-after", "4"});
  runs.train("run/diverged", {"--stop-after", "1"});  // of another run
  const Words diverges{"--learning-rate", "1e20", "--clip", "0"};
  const auto resume = [&](const char* name) {
    return Words{"train_gpt", "--resume", runs.path(name), "--data", runs.data} + diverges;
  };
  const Finished ended = elastic(runs, resume("run") + Words{"--transport", "mpi"});
  check_once(ended, 3, "a longer --warmup");
  CHECK_THAT(ended.errors,
             Contains("elastic: the run diverged, as another start would") &&
                 Contains("what is saved aside is in " + runs.path("run/diverged-2")));
  CHECK(saved(runs, "run/diverged-2") == 5);
  CHECK(saved(runs, "run/diverged") == 1);
  CHECK(saved(runs, "run") == 4);
  // What is saved in memory alone may be wrong, and the run's folder has an older update.
  runs.train("kept", {"--stop-after", "4"});
  const std::string back = "--resume " + runs.path("kept") + " --at 4\n";
  CHECK_THAT(
      elastic(runs, resume("kept") + Words{"--quiet"}, {"--every", "1"}).errors,
      Contains("go back: " + back) && Contains("elastic: to go back before update 5: " + back));
  // Of two stages only the last one meets it; the other stops because of that.
  const Words stages{"--transport", "mpi", "--stages", "2", "--schedule", "1f1b"};
  const Finished staged = elastic(runs, resume("run") + stages);
  check_once(staged, 3, "a longer --warmup");
  CHECK_THAT(staged.errors,
             Contains("go back: --resume " + runs.path("run") + " continues from update 4\n"));
  CHECK(saved(runs, "run") == 4);
  // A rank that is lost in the same update gives mpirun its status.
  check_ended(
      elastic(runs, runs.words("lost", diverges), scripted(runs, "mpirun \"$@\"\nexit 137")), 3,
      "elastic: the run diverged, as another start would");
  CHECK(starts(runs) == 1);
}

TEST_CASE("a run of processes that goes back to an older update continues from what it has saved") {
  const Runs runs{{"--data-parallel", "2", "--quiet", "--evaluate-every", "0"}};
  for (const char* loss : {"1@5", "1@8"}) {
    runs.train("run", {"--save-every", "2", "--steps", "4", "--keep", "3"});
    const Words back{"train_gpt", "--resume", runs.path("run"), "--data", runs.data, "--at", "2"};
    for (const char* name : {"run/metrics.jsonl", "run/metrics.csv"})
      runs.folder.write(name, "mine\n");
    const Finished ended = succeeded(
        elastic(runs, back + Words{"--steps", "12", "--lose", loss, "--quiet"}, {"--every", "1"}));
    CHECK_THAT(ended.errors, Contains("elastic: 1 loss; "));
    for (const std::string once : {"note: the first copy takes the place of later updates in ",
                                   "elastic: others have changed the run's files; ",
                                   " is not as the run wrote it until update 2"}) {
      CHECK_THAT(ended.errors, Contains(once));
      CHECK(ended.errors.find(once) == ended.errors.rfind(once));
    }
    CHECK(saved(runs, "run") == 12);
    for (const char* name : {"run/metrics.jsonl.before-1", "run/metrics.csv.before-1"})
      CHECK(plangrad::nn::read_file(runs.path(name)) == "mine\n");
    CHECK(plangrad::nn::manifests_of(runs.path("run/checkpoint")).back() == "manifest-2.json");
  }
}

TEST_CASE("a run of processes whose saves fail is not started again") {
  const Runs runs;
  auto run_until = [&](int update, int status, const Words& more) {
    const std::string script = "for i in $(seq " + std::to_string(update) +
                               "); do echo \"{\\\"step\\\":$i,\\\"loss\\\":1}\"; done "
                               ">$memory/metrics.jsonl\nexit " +
                               std::to_string(status);
    runs.folder.write("starts", "");
    return elastic(runs, runs.words("full", more), scripted(runs, script));
  };
  // The save of update 2 is over when that of update 4 begins.
  const Finished ended = run_until(5, 137, {});
  check_ended(ended, 1,
              "made update 5 and saved none, so another start would lose as much: is " +
                  runs.folder / "" + " full?");
  CHECK(starts(runs) == 1);
  CHECK_THAT(ended.errors, Contains("name a folder with room by --memory"));
  // So is the last save when the run ends with an error.
  check_ended(run_until(3, 1, {"--steps", "3"}), 1, "made update 3 and saved none");
  CHECK(starts(runs) == 1);
  // Saves may be under way when a rank is lost.
  for (int update : {3, 4}) {
    check_ended(run_until(update, 137, {"--steps", std::to_string(update)}), 1,
                "3 times in a row a rank was lost");
    CHECK(starts(runs) == 3);
  }
}

TEST_CASE("a run of processes is not started again when its memory is full") {
  const Runs runs{{"--data-parallel", "2", "--quiet"}};
  const Words mounted = on_small_disk(runs.path("memory"), 20 << 20);
  std::filesystem::create_directory(runs.path("memory"));
  if (run(mounted + Words{"true"}).status != 0) SKIP_TEST("only root can mount a small disk");
  const Words script =
      scripted(runs, "mpirun \"$@\"\nstatus=$?\ncat /dev/zero >$memory/fill\nexit $status");
  const Finished ended =
      run(mounted + elastic_words(runs, runs.words("full", {"--lose", "1@5"}),
                                  script + Words{"--memory", runs.path("memory")}));
  check_ended(ended, 1, "is " + runs.path("memory") + " full?");
  CHECK(starts(runs) == 1);
  CHECK(saved(runs, "full") >= 2);
}

TEST_CASE("a run of processes continues with fewer ranks, down to one") {
  const Runs runs{{"--data-parallel", "2", "--steps", "12", "--quiet"}};
  check_ended(elastic(runs, runs.words("fewer", {"--lose", "1@8"}), {"--fewer"}), 0,
              "elastic: starts 1 rank after update ");
  CHECK(saved(runs, "fewer") == 12);
}

TEST_CASE("a folder that the program elastic chooses is runs/latest") {
  const Runs runs{{"--data-parallel", "2", "--quiet"}};
  Words words = runs.words("");
  plangrad::examples::remove_flag(words, "--out");
  words = elastic_words(runs, words);
  words.insert(words.begin() + 1, "--chdir=" + runs.folder / "");
  const Finished ended = succeeded(run(words));
  CHECK(saved(runs, "runs/latest") == 6);
}

TEST_CASE("a rank that is lost after the last update costs no update, and an error stays one") {
  const Runs runs{{"--data-parallel", "2", "--quiet"}};
  const Finished failed =
      elastic(runs, runs.words("failed"), scripted(runs, "mpirun \"$@\"\nexit 1"));
  CHECK(failed.status == 1);
  CHECK(starts(runs) == 1);
  CHECK(saved(runs, "failed") == 6);
  runs.folder.write("starts", "");
  const Finished ended =
      succeeded(elastic(runs, runs.words("late"), scripted(runs, "mpirun \"$@\"\nexit 137")));
  CHECK(starts(runs) == 1);
  CHECK_THAT(ended.errors, Contains("ended with status 137 when all its 6 updates were saved"));
  CHECK_THAT(ended.errors, Contains("elastic: 0 losses; at most 0 of 6 updates"));
  CHECK(saved(runs, "late") == 6);
}

TEST_CASE("a signal ends a run of processes whose ranks have not begun") {
  const Runs runs;
  const Words script =
      scripted(runs, "trap '' USR1\ntrap 'exit 143' TERM\ntouch " + runs.path("waits") +
                         "\nfor i in $(seq 300); do sleep 0.1; done\n");
  Running launched(elastic_words(runs, runs.words("early"), script));
  while (!std::filesystem::exists(runs.path("waits"))) std::this_thread::yield();
  launched.signal(SIGTERM);
  check_ended(launched.finish(), 128 + SIGTERM, "elastic: 0 losses");
}

TEST_CASE("a signal makes a run of processes save that has begun") {
  const Runs runs{{"--data-parallel", "2", "--steps", "1000000"}};
  Running launched(elastic_words(runs, runs.words("stopped")));
  auto has_saved = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(runs.folder / ""))
      if (exists(entry.path() / "checkpoint" / "manifest.json")) return true;
    return false;
  };
  while (!has_saved()) std::this_thread::yield();
  const int signal = GENERATE(SIGTERM, SIGUSR1, SIGQUIT);  // of a user, a batch system, a keyboard
  launched.signal(signal);
  const Finished ended = launched.finish();
  CHECK(ended.status == 128 + signal);
  CHECK_THAT(ended.output, Contains("interrupted after "));
  CHECK(saved(runs, "stopped") == static_cast<int>(losses_by_update(runs.path("stopped")).size()));
}

TEST_CASE("updates without a line are counted among those done again") {
  const Runs runs{{"--stages", "2", "--microbatches", "2", "--steps", "60", "--quiet"}};
  const Finished ended =
      succeeded(elastic(runs, runs.words("again", {"--lose", "1@49"}), {"--every", "50"}));
  CHECK_THAT(ended.errors, Contains("at most 50 updates to do again"));
  CHECK_THAT(ended.errors, Contains("elastic: 1 loss; at most 50 of 60 updates were done again"));
}

TEST_CASE("a run that can't be copied stays in memory, and the program elastic tells of it") {
  const Runs runs{{"--data-parallel", "2", "--quiet"}};
  const Words script =
      scripted(runs, "mpirun \"$@\"\nstatus=$?\nprintf half >>$memory/metrics.jsonl\nmkdir -p " +
                         runs.path("out/metrics.jsonl/x") + "\nexit $status");
  const Finished ended = elastic(runs, runs.words("out"), script);
  check_ended(ended, 1,
              "were done again\nelastic: the state in memory can't be copied whole to " +
                  runs.path("out") + ": ");
  CHECK_THAT(ended.errors, !Contains("tried again"));
  std::filesystem::remove_all(runs.path("out"));
  const std::size_t at = ended.errors.find("--resume ") + 9;
  const std::string left = ended.errors.substr(at, ended.errors.find(' ', at) - at);
  runs.resume(std::filesystem::path(left).filename(), {"--steps", "8", "--transport", "threads"});
  check_ended(elastic(runs, runs.words("next")), 0,
              left +
                  " is left of a run that was killed or could not be copied; continue it after " +
                  "update 8");
  const std::string moves = "mpirun \"$@\"\ncd " + runs.path("") + " && mv new old && mkdir new\n";
  check_ended(elastic(runs, runs.words("new"), scripted(runs, moves)), 1,
              "can't be copied whole to " + runs.path("new") + ": " +
                  runs.path("new/plangrad.lock or its folder was removed or renamed"));
  CHECK_FALSE(std::filesystem::exists(runs.path("new/checkpoint")));
}

TEST_CASE("copies of a run's lines end with a whole one") {
  const Runs runs{{"--data-parallel", "2", "--quiet"}};
  const Words script =
      scripted(runs, "mpirun \"$@\"\nstatus=$?\nprintf half >>$memory/metrics.jsonl\nexit $status");
  const Finished ended = succeeded(elastic(runs, runs.words("half"), script));
  CHECK_THAT(plangrad::nn::read_file(runs.path("half/metrics.jsonl")), EndsWith("\n"));
}
#endif

TEST_CASE("as many states copied to disk stay there as --keep says") {
  namespace fs = std::filesystem;
  const Runs runs;
  runs.train("from", {"--stop-after", "1"});  // of which two stay
  auto files = [&] {
    std::set<std::string> names;
    for (const auto& file : fs::directory_iterator(runs.path("to/checkpoint")))
      if (const std::string name = file.path().filename(); !name.starts_with("optimizer"))
        names.insert(name);
    return names;
  };
  auto events = [&](const char* run) {
    std::string names;
    for (const auto& file : fs::directory_iterator(runs.path(run)))
      if (const std::string name = file.path().filename(); name.starts_with("events."))
        names += name;
    return names;
  };
  using Names = std::set<std::string>;
  plangrad::examples::RunCopy copy(runs.path("from"), runs.path("to"), 1000);
  REQUIRE(copy.copy());
  CHECK(files() == Names{"manifest.json", "model-1.safetensors"});
  runs.resume("from", {"--stop-after", "1"});
  const Names two{"manifest.json", "manifest-1.json", "model-1.safetensors", "model-2.safetensors"};
  for (int i = 0; i < 2; ++i) {  // of one state, too
    REQUIRE(copy.copy());
    CHECK(files() == two);
  }
  plangrad::nn::Checkpoint(runs.path("to/checkpoint"), "manifest-1.json").verify();
  runs.resume("from", {"--stop-after", "1"});
  fs::rename(runs.path("from/") + events("from"), runs.path("from/events.out.tfevents.9.plangrad"));
  plangrad::examples::RunCopy later(runs.path("from"), runs.path("to"), 1000);
  REQUIRE(later.copy());
  CHECK(events("to") == "events.out.tfevents.9.plangrad");  // that of the copy before is gone
  CHECK(files() ==
        Names{"manifest.json", "manifest-2.json", "model-2.safetensors", "model-3.safetensors"});
  runs.resume("from", {"--stop-after", "1", "--keep", "3"});
  REQUIRE(later.copy());
  CHECK(files().size() == 6);
  fs::copy(runs.path("to/checkpoint/manifest-3.json"),  // which the user sets aside
           runs.path("to/checkpoint/manifest-03.json"));
  plangrad::examples::RunCopy last(runs.path("from"), runs.path("to"), 1000);
  for (const std::string step : {"5", "6"}) {
    runs.resume("from", {"--stop-after", "1", "--keep", "1"});
    REQUIRE(last.copy());
    CHECK(files() == Names{"manifest.json", "manifest-03.json", "model-3.safetensors",
                           "model-" + step + ".safetensors"});
  }
  plangrad::nn::Checkpoint(runs.path("to/checkpoint"), "manifest-03.json").verify();
}

TEST_CASE("a copy replaces and removes only files that are as the run left them") {
  const Runs runs;
  runs.train("from", {"--stop-after", "1"});
  runs.folder.write("to/metrics.csv", "found");
  plangrad::examples::RunCopy copy(runs.path("from"), runs.path("to"), 1000);
  const auto bytes = [&](const char* name) { return plangrad::nn::read_file(runs.path(name)); };
  const auto files = {"to/metrics.jsonl", "to/checkpoint/model-1.safetensors",
                      "to/checkpoint/manifest.json"};
  std::filesystem::create_directories(runs.path("to/checkpoint/manifest.json"));
  CHECK_FALSE(copy.copy());  // a folder is in the way, and what was replaced before it stays
  CHECK(bytes("to/metrics.csv") == bytes("from/metrics.csv"));
  CHECK_FALSE(std::filesystem::exists(runs.path("to/metrics.jsonl")));
  std::filesystem::remove(runs.path("to/checkpoint/manifest.json"));
  for (const char* file : files) runs.folder.write(file, "mine");
  REQUIRE(copy.copy());
  for (const std::string file : files) CHECK(bytes((file + ".before-1").c_str()) == "mine");
  CHECK_FALSE(std::filesystem::exists(runs.path("to/metrics.csv.before-1")));
  plangrad::nn::Checkpoint(runs.path("to/checkpoint")).verify();
  for (const char* file : files) runs.folder.write(file, "ours");
  runs.resume("from", {"--stop-after", "1", "--keep", "1"});
  REQUIRE(copy.copy());
  CHECK(bytes("to/metrics.jsonl.before-2") == "ours");
  CHECK(bytes("to/checkpoint/manifest.json.before-2") == "ours");
  CHECK(bytes("to/checkpoint/model-1.safetensors") == "ours");  // a name that the run gives up
  CHECK(step_of(runs.path("to")) == 2);
  // A folder in the way holds no checkpoint back, and a file of the same bytes is the run's.
  runs.resume("from", {"--stop-after", "1"});
  std::filesystem::create_directory(runs.path("to/report.html.plangrad-partial"));
  const std::string report = bytes("to/report.html");
  runs.folder.write("to/summary.json", bytes("to/summary.json"));
  std::filesystem::last_write_time(runs.path("to/summary.json"), {});
  CHECK_FALSE(copy.copy());
  CHECK_THAT(copy.problem(), Contains("to/report.html can't be written") && Contains("move away"));
  CHECK(step_of(runs.path("to")) == 3);
  CHECK(bytes("to/report.html") == report);
  CHECK(bytes("to/summary.json") == bytes("from/summary.json"));
  CHECK_FALSE(std::filesystem::exists(runs.path("to/summary.json.before-1")));
  std::filesystem::remove(runs.path("to/report.html.plangrad-partial"));
  std::filesystem::rename(runs.path("to/metrics.csv"), runs.path("to/summary.json"));
  REQUIRE(copy.copy());
  CHECK(std::filesystem::exists(runs.path("to/summary.json.before-1")));
}

TEST_CASE("a folder that may not be read hides no other files from the next copy") {
  const Runs runs;
  runs.train("from", {"--stop-after", "1"});
  const auto shell = [&](const std::string& command) {
    succeeded(run({"/bin/sh", "-c", "cd $0 && " + command, runs.path("")}));
  };
  shell("mkdir to && mkdir -m 0 to/a to/b to/c to/d");  // some are listed first in any order
  REQUIRE(plangrad::examples::RunCopy(runs.path("from"), runs.path("to"), 1000).copy());
  shell("mkdir -m 0 to/w to/x to/y to/z && chmod 755 .");
  const bool was_root = ::geteuid() == 0;  // whom no permissions stop
  if (was_root) std::ignore = ::seteuid(65534);
  std::error_code ignored;
  const bool is_seen = ::geteuid() != 0 && std::filesystem::exists(runs.path("to/a"), ignored);
  plangrad::examples::RunCopy copy(runs.path("from"), runs.path("to"), 1000);
  if (was_root) std::ignore = ::seteuid(0);
  shell("rmdir to/?");
  if (!is_seen) SKIP_TEST("no other user may search " << runs.path(""));
  REQUIRE(copy.copy());
  CHECK(files_in(runs.path("to")).size() == files_in(runs.path("from")).size());
}

TEST_CASE("a new folder in memory is never taken for one that is left") {
  const Folder parent;
  std::ostringstream told;
  std::streambuf* const before = std::cerr.rdbuf(told.rdbuf());
  std::atomic<bool> is_over = false;
  std::thread looks([&] {
    while (!is_over) plangrad::examples::name_left_over(parent / "", "");
  });
  for (int i = 0; i < 2000; ++i) plangrad::examples::MemoryFolder(parent / "");
  is_over = true;
  looks.join();
  std::cerr.rdbuf(before);
  CHECK(told.str() == "");
}
