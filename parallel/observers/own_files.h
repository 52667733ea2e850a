// OwnFiles: which files of a run's folder are as the run left them; others are moved to names aside
// before the run replaces them. Files are known by their bytes' number and checksum.
// Not here: what is in the files (metric_files.h, run_record.h).
#pragma once

#include "nn/checkpoint/file.h"

namespace plangrad::parallel {

/// The length and CRC-32 of a file's first `bytes` bytes, -1: of all; null if it has fewer.
nlohmann::json written_in(const std::filesystem::path& path, std::int64_t bytes = -1);

/// Whether a file begins with the lines that a checkpoint names.
///   written: what AppendedFile::written() returned when it was saved
bool begins_as(const std::filesystem::path& path, const nlohmann::json& written);

/// The first of FILE.before-1, FILE.before-2, ... that is free, or has the same bytes as the file.
/// That of a file for TensorBoard has a name that TensorBoard does not read.
std::filesystem::path name_aside(const std::filesystem::path& file);

/// The files that a run may replace: those that are as it found or wrote them.
class OwnFiles {
 public:
  /// Notes the files that are in a folder now; there may be no such folder.
  explicit OwnFiles(const std::filesystem::path& folder = {});
  /// Notes a file as it is now.
  void note(const std::filesystem::path& file) { own_[file] = state_of(file); }
  bool has(const std::filesystem::path& file) const;  ///< as it was noted
  /// Renames a file to name_aside() of it unless it is as it was noted. Returns
  /// "; FILE stays in NAME", or nothing.
  /// throws: Error if it can't be renamed
  std::string make_way(const std::filesystem::path& file) const;

 private:
  static std::string state_of(const std::filesystem::path& file);
  std::map<std::filesystem::path, std::string> own_;
};

}  // namespace plangrad::parallel
