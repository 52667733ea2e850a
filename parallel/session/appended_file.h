// AppendedFile: a file that grows while a run goes on, also if the disk is full for a while.
// Not here: files that are replaced as a whole (nn/checkpoint/file.h). Chapter 03.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "nn/checkpoint/file.h"

namespace plangrad::parallel {

class AppendedFile {
 public:
  /// Begins a new file, in the place of a file or link of this name.
  /// throws: Error if it can't be created
  explicit AppendedFile(const std::filesystem::path& path);

  /// Appends bytes, which the system has on return. What the disk has no room for stays in memory,
  /// and is written before the bytes of the next call.
  void write(std::string_view bytes);
  /// Why the last bytes are not in the file yet; empty: all of them are.
  const std::string& problem() const { return problem_; }

 private:
  nn::Descriptor file_;
  std::string waiting_, problem_;
};

}  // namespace plangrad::parallel
