// A run's folder in memory, and its copies on disk. A copy is complete and intact before it takes
// the place of the one before. Not here: the processes that write the folder (launcher.h).
// Chapter 15.
#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>

#include "nn/checkpoint/file.h"

namespace paragrad::examples {

/// The update of the newest intact checkpoint of a run; 0: there is none.
int saved_in(const std::filesystem::path& run);

/// The last update that is saved, or that rank 0 has written a line of.
int done_in(const std::filesystem::path& run);

/// A new folder in memory, which is locked as long as the object lives.
class MemoryFolder {
 public:
  /// throws: Error if it can't be made in `parent`
  explicit MemoryFolder(const std::filesystem::path& parent);
  /// Removes the folder, unless it holds a checkpoint that is not on disk.
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void on_disk() { on_disk_ = true; }  ///< all of it

 private:
  std::filesystem::path path_;
  nn::Descriptor lock_;
  bool on_disk_ = false;
};

/// Tells of this user's folders in `parent` that no process holds: their runs were killed.
void name_left_over(const std::filesystem::path& parent, const std::filesystem::path& resumed);

/// Copies a run's folder to another one again and again.
class RunCopy {
 public:
  /// minutes: between copies
  RunCopy(std::filesystem::path from, std::filesystem::path to, double minutes);

  /// Copies the newest state, if there is one. Returns whether it is on disk now; if not, refresh()
  /// tries again a second later. The copy before stays until the new one is complete.
  bool copy();
  void refresh();  ///< copies if it is time to

  bool holds_run() const { return !files_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  void copy_all();
  std::filesystem::path added(const std::filesystem::path& path);
  void copy_rest();
  void commit(const std::string& manifest);

  std::filesystem::path from_, to_;
  std::chrono::duration<double> every_;
  Clock::time_point next_;
  int failures_ = 0;                       // in a row
  std::set<std::filesystem::path> files_;  // of the copy, and of the one that is being made:
  std::set<std::filesystem::path> new_;
};

}  // namespace paragrad::examples
