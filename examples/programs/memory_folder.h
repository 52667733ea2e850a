// A run's folder in memory, and those that are left of runs which ended without a copy.
// Not here: what is written there (launcher.h), and copies of it (run_copy.h).
// Chapter 15.
#pragma once

#include <filesystem>

#include "nn/checkpoint/file.h"

namespace plangrad::examples {

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

/// Tells of this user's folders in `parent` that no process holds.
void name_left_over(const std::filesystem::path& parent, const std::filesystem::path& resumed);

}  // namespace plangrad::examples
