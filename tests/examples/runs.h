// Runs: trainings of a moment, all on one text and each in a folder of its own, to be held against
// each other. Not here: what is the same in which of them.
#pragma once

#include <algorithm>

#include "tests/examples/programs.h"

namespace plangrad::tests {

/// Text in which each character hangs on many before it.
inline std::string varied_text() {
  std::string text;
  for (int i = 0; i < 600; ++i) text += static_cast<char>('a' + (i * i / 8 + i / 50) % 11);
  return text;
}

/// The losses of a run by update; each update must have one line at most.
inline std::map<int, double> losses_by_update(const std::string& folder) {
  std::map<int, double> losses;
  for (const nlohmann::json& line : metrics_of(folder))
    if (line.contains("loss")) {
      const bool is_new = losses.emplace(line["step"], line["loss"]).second;
      CHECK(is_new);
    }
  return losses;
}

/// Begins a command for which `folder` is an empty disk of so many bytes, which goes at its end.
/// Only root can run it.
inline Words on_small_disk(const std::string& folder, std::size_t bytes) {
  return {"/usr/bin/env",
          "unshare",
          "-m",
          "sh",
          "-c",
          "mount -t tmpfs -o size=$0 tmpfs $1 && shift && exec \"$@\"",
          std::to_string(bytes),
          folder};
}

/// Runs that must succeed, all with these flags.
struct Runs {
  explicit Runs(Words all_have = {}) : flags(std::move(all_have)) {}

  Words flags;
  Folder folder;
  std::string data = folder.write("text.txt", varied_text());

  std::string path(const std::string& name) const { return folder / name; }
  /// The command of a new run into folder `name`.
  virtual Words words(const std::string& name, const Words& more = {}) const {
    return tiny_run(data, path(name), flags + more);
  }
  /// A test may train into a folder more than once.
  void train(const std::string& name, const Words& more = {}) const {
    succeed(words(name, more + Words{"--overwrite"}));
  }
  /// Goes on with the run in `from`, with its flags and these.
  void resume(const std::string& from, const Words& more = {}) const {
    succeed(Words{"train_gpt", "--resume", path(from), "--overwrite"} + more);
  }
  void succeed(const Words& command) const { succeeded(run(command)); }
  /// Checks that a run with these flags fails before anything is written.
  void check_refused(const Words& more, const std::string& part, long lines = 1) const {
    CAPTURE(more);
    check_failed(run(words("refused", more)), part, lines);
    CHECK_FALSE(std::filesystem::exists(path("refused")));
  }
  /// Checks that two runs of six updates have the same losses.
  void check_equal(const std::string& one, const std::string& two) const {
    REQUIRE(losses_of(path(one)).size() == 7);
    CHECK(losses_of(path(one)) == losses_of(path(two)));
  }
  void check_same(const std::string& one, const std::string& two) const {
    CHECK(losses_of(path(one)) == losses_of(path(two)));
    const bool same_weights = weights_of(path(one)) == weights_of(path(two));
    CHECK(same_weights);
  }
};

/// Runs a command that has to be refused with this advice, and to leave a folder as it is.
inline void check_untouched(const std::string& folder, const Words& words,
                            const std::string& advice) {
  CAPTURE(words);
  const auto before = files_in(folder);
  const Finished refused = run(words);
  check_ended(refused, 2, advice);
  CHECK(std::count(refused.errors.begin(), refused.errors.end(), '\n') == 1);
  const bool untouched = files_in(folder) == before;
  CHECK(untouched);
}

}  // namespace plangrad::tests
