// FolderClaim: a session's right to its output folder. No other run writes to it meanwhile, and all
// ranks see the same folder. Not here: what is written there (session.h). Chapter 05.
#pragma once

#include <filesystem>
#include <memory>

#include "nn/checkpoint/file.h"
#include "parallel/transports/transport.h"

namespace plangrad::parallel {

/// Makes a folder, and those above it, that is there after a power failure, too.
/// throws: Error if it can't be made or written
void make_writable(const std::filesystem::path& folder);

/// Whether a folder was claimed by a process that was killed, and that nobody has claimed since.
bool is_abandoned(const std::filesystem::path& out);

class FolderClaim {
 public:
  /// Rank 0 makes the folder and its checkpoint/, locks the file plangrad.lock in it, and writes a
  /// file for which the others look. All ranks call it together, with their own --out.
  /// throws: Error if another run holds the folder, or a rank does not find the file
  FolderClaim(Transport& transport, const std::filesystem::path& out, double timeout);
  ~FolderClaim();
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;

  /// The folder as it is called now, should it have been renamed since; empty if it was removed,
  /// and, on other hosts than that of rank 0, also after it was renamed.
  std::filesystem::path place() const;

 private:
  class Lock;
  std::unique_ptr<Lock> lock_;              // of rank 0
  std::unique_ptr<nn::Descriptor> folder_;  // of the others
};

}  // namespace plangrad::parallel
