// EventFile: numbers over steps in the format that TensorBoard reads.
// Not here: which numbers (metric_files.h), and a reader.
// Chapter 03; TensorFlow's TFRecord framing, and its protocol buffers Event and Summary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/session/appended_file.h"

namespace plangrad::parallel {

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
