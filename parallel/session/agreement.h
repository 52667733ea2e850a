// What ranks compare: how they were started, what they resume, the weights that replicas share, and
// the folder that they write to, which belongs to one run at a time.
// Not here: what is written there (saving.h). Chapter 05.
#pragma once

#include <mutex>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/engine.h"

namespace plangrad::parallel {

/// Compares what ranks say of the run: processes can be started with other flags, read other data
/// or another checkpoint, or be other builds, whose replicas would drift apart. All ranks call it.
///   run: the description of the run; resumed: the checkpoint that it continues from, or null
/// throws: SharedError that names a rank that differs from rank 0
void check_agreement(Transport& transport, const nlohmann::json& run,
                     const nn::OpenedCheckpoint* resumed, double timeout);

/// The CRC-32 of a tensor's bytes, continued from that of other bytes `before` it.
std::uint32_t checksum_of(const Tensor& x, std::uint32_t before = 0);

/// The CRC-32 of the newest weights of each stage that this rank holds whole (no shard of ZeRO 3).
using WeightsChecksums = std::map<int, std::uint32_t>;
WeightsChecksums weights_checksums(Engine& engine);

/// The state of some rank is wrong, so it must not be saved.
struct WrongState : Error {
  using Error::Error;
};

/// Compares the weights of replicas, given those of all ranks. `when` ends the error's first part.
/// throws: WrongState that names a stage, and two ranks whose weights of it differ
void check_replicas(const std::vector<WeightsChecksums>& ranks, const std::string& when);

/// Compares the weights that replicas begin with. All ranks call it.
void check_first_weights(Engine& engine, int steps);

// ---- the run's folder ----

/// Whether a folder was claimed by a process that was killed, and that nobody has claimed since.
bool is_abandoned(const std::filesystem::path& out);

/// The lock of an output folder, which a process holds for as long as this lives.
class FolderLock {
 public:
  /// Makes the folder and its checkpoint/, and locks checkpoint/ and the file plangrad.lock.
  /// throws: Error if another run holds the folder, or it can't be made or locked
  explicit FolderLock(const std::filesystem::path& out);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

  /// Whether the folder is still there, under its name. A file that was removed is made anew.
  bool is_here();
  /// throws: Error unless is_here()
  void check_here();
  const std::filesystem::path& path() const { return path_; }
  /// The process that holds the lock, as the file names it; empty if the disk was full.
  const std::string& owner() const { return owner_; }

 private:
  void lock();

  const std::filesystem::path path_;
  nn::Descriptor folder_{-1};  // -1: the disk locks no folders
  int file_ = -1;              // the system frees the locks when the process ends
  std::string owner_;
  bool made_ = false;  // the folder was not there before
  std::mutex mutex_;   // of is_here(), which a thread that commits asks, too
};

/// Claims a session's output folder: no other run writes to it meanwhile, and all ranks see the
/// same folder. Rank 0 locks it and returns the lock; the others look for that, and return null.
/// All ranks call it together, with their own --out.
///   lock: rank 0's, if it has locked the folder already
/// throws: SharedError for FolderLock's, or if a rank does not find rank 0's lock in its own folder
std::shared_ptr<FolderLock> claim_folder(Transport& transport, const std::filesystem::path& out,
                                         double timeout,
                                         std::shared_ptr<FolderLock> lock = nullptr);

}  // namespace plangrad::parallel
