// Exit statuses: 2 for what can't be done as the command asks for it, found before the work begins;
// 1 for what fails later. Not here: status 3 of runs that diverge (checkpoint_runs_test.cpp), and
// signals (stop_signals_test.cpp). Chapter 02.
#include <sys/stat.h>

#include "parallel/session/agreement.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;

namespace {

void check_status(int status, const Words& words, const std::string& part) {
  CAPTURE(words);
  check_ended(run(words), status, part);
}

}  // namespace

TEST_CASE("what can't be done as a command asks for it ends with status 2, in every program") {
  const Runs runs;
  runs.train("run", {"--stop-after", "2"});
  const std::string run_folder = runs.path("run"), none = runs.path("none");
  const std::string no_folder = runs.data + "/out";  // a file can't be a folder
  const auto refused = [](const Words& words, const std::string& part) {
    check_status(2, words, part);
  };
  refused(runs.words("new", {"--data", none}), "there is no file");
  refused(runs.words("new", {"--out", no_folder}), "can't write to the folder");
  refused({"train_gpt", "--resume", none}, "holds no checkpoint");
  for (const Words& more : {Words{}, Words{"--transport", "mpi"}}) {
    Words alone = runs.words("new", more);
    alone[0] = program(alone[0]);
    refused(Words{"/usr/bin/env", "RANK=1"} + alone, "WORLD_SIZE is not");
  }
  {
    const plangrad::parallel::FolderLock lock(run_folder);
    refused(runs.words("run", {"--overwrite"}), "another run writes to");
    refused({"train_gpt", "--resume", run_folder}, "another run writes to");
  }
  refused({"train_resnet", "--data", none}, "none");
  refused({"train_vocabulary", "--data", none, "--size", "300", "--out", none}, "no file");
  refused({"train_vocabulary", "--data", runs.data, "--size", "9999", "--out", none}, "at most");
  refused({"sample_gpt", "--from", none}, "holds no checkpoint");
  refused({"train_gpt", "--resume", run_folder, "--data-parallel", "2147483647", "--zero", "3"},
          "counts to microbatch 2147483647; at most");
  std::filesystem::copy(run_folder, runs.path("pipe"), std::filesystem::copy_options::recursive);
  std::filesystem::remove(runs.path("pipe/metrics.jsonl"));
  REQUIRE(::mkfifo(runs.path("pipe/metrics.jsonl").c_str(), 0600) == 0);
  refused({"train_gpt", "--resume", runs.path("pipe")}, "metrics.jsonl is a pipe or a device");
  refused({"report"}, "two or more runs");
  refused({"report", run_folder}, "two or more runs to compare; a run's own page is report.html");
  refused({"report", run_folder, none}, "is not there");
  refused({"report", run_folder, run_folder, "--out", "x.txt"}, "ends in .html");
  const std::string missing = "the folder " + none + " does not exist";  // a typo makes none
  refused(runs.words("none/run"), missing);
  refused(Words{"elastic"} + runs.words("none/run"), missing);
  refused({"report", run_folder, run_folder, "--out", none + "/x.html"}, missing);
  refused({"sample_gpt", "--from", run_folder, "--export", none + "/x"}, missing);
  refused({"train_vocabulary", "--data", runs.data, "--size", "260", "--out", none + "/x"},
          missing);
  refused({"plan", "draw", "--schedule", "gpipe", "--stages", "2", "--microbatches", "2", "--out",
           none + "/x.svg"},
          missing);
  refused({"train_gpt", "--resume", run_folder, "--lose", "0@2"}, "update 2 is done");
  for (const char* command : {"verify", "list", "show"})
    refused({"checkpoint", command, none}, "holds no checkpoint");
  refused({"checkpoint", "export", run_folder, run_folder}, "files that are no export");
  refused({"checkpoint", "export", run_folder, no_folder}, "can't create");
  refused({"sample_gpt", "--from", run_folder, "--export", no_folder}, "can't create");
  refused({"plan", "verify", none}, "there is no file");
  refused({"plan", "machine", none}, "no machine and no file");
  const Words trained = runs.words("new");
  refused(Words{"elastic", "--memory", no_folder} + trained, "--memory");
  refused(Words{"elastic"} + runs.words("new", {"--out", no_folder}), "can't write to the folder");
  Words found = trained;
  found[0] = program(found[0]);
  refused(Words{"elastic", "--mpirun", none} + found, "can't start");
  for (const std::string& name : {none, runs.data, runs.folder / ""}) {
    found[0] = name;
    refused(Words{"elastic"} + found, "there is no program " + name + ", or it may not be started");
  }
  found[0] = "no_program_has_this_name";
  refused(Words{"elastic"} + found, found[0] + ": name it with its path");
  found[0] = program(trained[0]);  // which mpirun starts alone, so that other variables count
  refused(Words{"/usr/bin/env", "RANK=1", "WORLD_SIZE=2", program("elastic"), "-n", "1"} + found,
          "start it without them, env -u RANK elastic");
  CHECK(step_of(run_folder) == 2);
  CHECK_FALSE(std::filesystem::exists(runs.path("new")));
  CHECK_FALSE(std::filesystem::exists(none));
}

TEST_CASE("what fails after the work began ends with status 1") {
  const Runs runs;
  runs.train("run");
  const std::string run_folder = runs.path("run"), no_folder = runs.data + "/out";
  check_status(1, runs.words("small", {"--memory-cap", "100"}), "out of memory");
  check_status(1, {"report", run_folder, run_folder, "--out", "/proc/x.html"}, "can't write");
  check_status(1, {"train_vocabulary", "--data", runs.data, "--size", "260", "--out", no_folder},
               "can't create");
  check_status(1,
               {"plan", "draw", "--schedule", "gpipe", "--stages", "2", "--microbatches", "2",
                "--out", "/proc/x.svg"},
               "can't write");
}

TEST_CASE("a message or page that quotes megabytes of a file is cut short") {
  const Runs runs;
  nlohmann::json summary{{"seconds", 1}, {"config", nlohmann::json::object()}};
  for (const char* name : {"date", "command", "state"}) summary[name] = std::string(1 << 20, 'n');
  summary["config"]["flags"]["--data"] = summary["date"];
  for (const char* run : {"a", "b"}) {
    std::filesystem::create_directory(runs.path(run));
    runs.folder.write(std::string(run) + "/summary.json", summary.dump());
  }
  const std::string page = runs.path("page.html");
  REQUIRE(run({"report", runs.path("a"), runs.path("b"), "--out", page}).status == 0);
  CHECK(std::filesystem::file_size(page) < 1'000'000);
  const std::string model = runs.folder.write("model.json", "{\"" + std::string(1 << 19, 'n'));
  const Finished long_name = run({"plan", "verify", model});
  CHECK(long_name.status == 2);
  CHECK(long_name.errors.size() < 5'000);
  CHECK_THAT(long_name.errors, Contains("n ... n"));
}
