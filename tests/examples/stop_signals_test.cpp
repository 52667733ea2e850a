// What a run's terminal, its caller and a batch system do to it: signals, streams that are closed.
// Not here: Ctrl-C and Ctrl-Z (runs_test.cpp), and signals under mpirun (processes_test.cpp).
#include "examples/programs/stop_signals.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/examples/runs.h"

using namespace plangrad::tests;

TEST_CASE("a signal prints how to get more time from mpirun where a run can still save") {
  const Folder folder;
  const std::string errors = folder / "errors";
  for (const auto& [trains, hints] : {std::pair(false, true), {true, false}, {true, true}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::creat(errors.c_str(), 0600), STDERR_FILENO);
      plangrad::examples::handle_stop_signals();
      plangrad::examples::hint_at_kill(hints);
      if (trains) plangrad::examples::training_begins();
      std::raise(SIGTERM);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == (trains ? 0 : SIGTERM));
    CHECK((std::filesystem::file_size(errors) > 0) == (trains && hints));
  }
}

TEST_CASE("a run saves on each signal that asks it to end, and ends with its status") {
  const Runs runs;
  for (int signal : {SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2}) {
    CAPTURE(signal);
    const std::string out = "run" + std::to_string(signal);
    Running asked(runs.words(out, {"--steps", "1000000", "--evaluate-every", "0"}));
    wait_for_steps(runs.path(out), 3);
    asked.signal(signal);
    CHECK(asked.finish().status == 128 + signal);
    CHECK(step_of(runs.path(out)) >= 3);
  }
}

TEST_CASE("a run whose caller has closed standard streams prints to no file of its own") {
  const Runs runs;
  Words words = runs.words("run");
  words[0] = program(words[0]);
  CHECK(run(Words{"/bin/sh", "-c", "exec \"$0\" \"$@\" <&- >&- 2>&-"} + words).status == 0);
  runs.train("open");
  runs.check_same("open", "run");
}

TEST_CASE("a run whose terminal goes saves, and one whose reader goes trains on") {
  const Runs runs;
  const std::string out = runs.path("run");
  Running hung_up(runs.words("run", {"--steps", "1000000", "--evaluate-every", "0"}));
  wait_for_steps(out, 3);
  hung_up.signal(SIGHUP);
  CHECK(hung_up.finish().status == 128 + SIGHUP);
  CHECK(step_of(out) == static_cast<std::int64_t>(metrics_of(out).size()));
  runs.resume("run", {"--stop-after", "1"});

  std::string command = "ulimit -c 0; set -o pipefail; " + program("train_gpt");
  const Words words = runs.words("piped", {"--steps", "400"});
  for (std::size_t i = 1; i < words.size(); ++i) command += " " + words[i];
  CHECK(run({"/bin/bash", "-c", command + " | head -1"}).status == 0);
  CHECK(step_of(runs.path("piped")) == 400);
}
