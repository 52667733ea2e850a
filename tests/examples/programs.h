// Programs run as a user runs them, in folders that go with the test.
// Not here: what each is expected to write.
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/temporary_folder.h"

namespace plangrad::tests {

using Words = std::vector<std::string>;

/// Both lists, one after the other.
Words operator+(Words first, const Words& second);
/// The text, so many times.
std::string repeat(const std::string& text, int times);

/// A new folder, removed at the end of its scope.
class Folder {
 public:
  /// The path of a file or folder in it.
  std::string operator/(const std::string& name) const { return (folder_.path / name).string(); }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const;

 private:
  TemporaryFolder folder_;
};

/// The path of a program that was built with this one, in whatever folder both are now.
std::string program(const std::string& name);

struct Finished {
  int status;  ///< as a shell has it: 128 + number if a signal ended it
  std::string output, errors;
};

/// A program of this build that runs; `arguments` begin with its name.
class Running {
 public:
  /// On a terminal, output and errors are one text, `output`.
  explicit Running(const Words& arguments, bool on_terminal = false);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void signal(int number) const;
  Finished finish();

 private:
  int process_ = -1, terminal_ = -1;
  std::FILE *output_, *errors_;
};

inline Finished run(const Words& arguments) { return Running(arguments).finish(); }
inline Finished run_on_terminal(const Words& arguments) {
  return Running(arguments, true).finish();
}

/// Checks that a program ended well, and returns what it left.
Finished succeeded(const Finished& ended);
/// Checks that a program ended with this status, and that its errors hold `part`.
void check_ended(const Finished& ended, int status, const std::string& part);
/// Checks that a program printed errors alone: `lines` lines that begin with "error:" and hold
/// `part`.
void check_failed(const Finished& failed, const std::string& part, long lines = 1, int status = 2);

/// A training run of a moment: `train_gpt` with a tiny model, and `more`.
Words tiny_run(const std::string& data, const std::string& out, const Words& more = {});

/// All files under a folder, by their paths in it; none if there is no such folder.
std::map<std::string, std::string> files_in(const std::string& folder);
/// The lines of metrics.jsonl.
std::vector<nlohmann::json> metrics_of(const std::string& folder);
/// Waits until a run has written this many of them.
/// throws: Error after a minute
void wait_for_steps(const std::string& folder, std::ptrdiff_t lines);
/// The lines without what no two runs share: times.
std::vector<nlohmann::json> losses_of(const std::string& folder);
nlohmann::json summary_of(const std::string& folder);
/// The data of report.html.
nlohmann::json report_of(const std::string& folder);
/// The update that the newest checkpoint is of.
std::int64_t step_of(const std::string& folder);
/// The tensors in each file of the checkpoint, as bytes; the run may have taken any steps.
std::vector<std::string> weights_of(const std::string& folder);

}  // namespace plangrad::tests
