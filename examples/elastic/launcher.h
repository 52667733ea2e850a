// Launcher: starts a training's processes by mpirun, and starts them again from memory when a rank
// is lost. Not here: copies of that state to disk (run_copy.h), flags (examples/elastic.cpp).
// Chapter 15.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autograd/version.h"
#include "examples/elastic/elastic.h"
#include "examples/elastic/run_copy.h"

namespace plangrad::examples {

struct LaunchOptions {
  int ranks = 2, every = 5, tries = 3, at = -1;  ///< at: of `resume`; -1: its newest update
  double disk_minutes = 10;
  bool fewer = false, is_new = false;  ///< is_new: `out` is a folder that elastic chose
  std::string mpirun = autograd::mpirun();
  std::filesystem::path memory = "/dev/shm", out, resume;  ///< resume: empty, or a run's folder
  std::shared_ptr<parallel::FolderLock> lock = nullptr;    ///< of `out`
};

/// From now on, SIGINT, SIGTERM and SIGHUP ask for a save and a stop; an ignored SIGHUP stays so.
void note_signals();

class Launcher {
 public:
  /// words: the program and its flags
  Launcher(LaunchOptions options, Words words);
  /// Returns the exit status: the program's, 128 + the number of a signal to this program, or 1 if
  /// ranks were lost too often, the run can't save into memory, or --out could not be written.
  /// throws: Error if mpirun can't be started
  int run();

 private:
  Words command(int ranks, const parallel::PlanSpec* layout) const;
  int attempt();
  int attempt_with(int ranks, const parallel::PlanSpec* layout);
  int steps() const;
  int saved() const;
  int done() const;
  bool can_save(int status) const;
  void keep_aside() const;
  std::optional<int> last_status(int status) const;
  void note_loss(int status);
  int end(int status);

  LaunchOptions options_;
  Words words_;
  MemoryFolder memory_{options_.memory};
  RunCopy copy_{memory_.path(), options_.out, options_.disk_minutes, options_.at, options_.lock};
  std::string news_;      // that no checkpoint's metrics have yet
  nlohmann::json flags_;  // of the first checkpoint
  int first_ = 0, saved_ = 0, losses_ = 0, repeated_ = 0, vain_ = 0;
};

/// Starts a program, found like a shell's, in a process group of its own, so that Ctrl-C does not
/// reach it. On Linux, it gets SIGTERM when this process ends, in whatever way.
/// throws: UsageError if there is no such program; Error if the system has no process left
pid_t start_process(std::vector<std::string> words);

}  // namespace plangrad::examples
