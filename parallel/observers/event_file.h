// EventFile: numbers over steps in the format that TensorBoard reads. AppendedFile: a file that
// grows while a run goes on, also if the disk is full for a while.
// Not here: which numbers (metric_files.h), and a reader.
// Chapter 03; TensorFlow's TFRecord framing, and its protocol buffers Event and Summary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// The checksum CRC-32C (Castagnoli) of these bytes.
std::uint32_t crc32c(std::string_view bytes);

class EventFile {
 public:
  /// Begins a new file. throws: Error if it can't be created
  explicit EventFile(const std::filesystem::path& path, double time);

  /// Writes numbers by their tags. Tags that begin alike up to a slash share a heading.
  ///   time: seconds since 1970
  void write(double time, std::int64_t step,
             const std::vector<std::pair<std::string, double>>& values);
  /// AppendedFile::problem()
  const std::string& problem() const { return file_.problem(); }

 private:
  void write_record(const std::string& event);

  AppendedFile file_;
};

}  // namespace plangrad::parallel
