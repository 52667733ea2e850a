// Saves go on while the run trains: each rank's StateWriter writes copies of its state in a thread,
// and rank 0's CommitThread commits the checkpoint once the files of all ranks are there.
// Not here: what is saved (state_files.h), the format (nn/checkpoint/checkpoint.h). Chapter 15.
#pragma once

#include <atomic>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/training.h"

namespace plangrad::parallel {

/// Waits for work on a disk. A disk whose host is gone may keep it for ever, so a line says after
/// each period that a save still waits.
template <class T>
T wait_for_disk(std::future<T>& work, std::chrono::milliseconds period = std::chrono::seconds(30),
                std::ostream& out = std::cerr) {
  for (auto waited = period; work.wait_for(period) != std::future_status::ready; waited += period)
    out << autograd::text("a save has waited for its disk for ", waited.count() / 1000.0,
                          " s; is the disk's host still there?\n");
  return work.get();
}

/// A rank's part of saves.
class StateWriter {
 public:
  /// Copies each file's buffers, in their type. The copies last until the files are written.
  nn::WriteFile taker();
  /// Begins to write what was taken, and describes the files that will be there. The save before
  /// must be finished.
  std::vector<nn::CheckpointFile> start(std::filesystem::path folder, nn::SaveMark mark);
  /// Waits until the files are on disk, and returns them; one that can't be written says why.
  std::vector<nn::CheckpointFile> finish();

 private:
  struct Taken {
    std::string stem;
    nn::ParameterList parameters;
    nn::FlatBuffers buffers;
  };
  std::vector<Taken> taken_;
  std::future<std::vector<nn::CheckpointFile>> written_;  // its destructor waits
};

/// Rank 0's part of a save.
class CommitThread {
 public:
  /// Waits for these files in a thread, and commits them (nn::commit_checkpoint).
  ///   before: a file that is put on disk before; empty: none
  CommitThread(std::filesystem::path folder, std::filesystem::path before, nn::SaveMark mark,
               nlohmann::json run, std::vector<nn::CheckpointFile> files, nn::Kept kept);
  /// Waits up to 30 seconds for files that are being written, and one for others: when a session
  /// fails, writers may still be at work, or gone.
  ~CommitThread();

  int step() const { return step_; }
  /// Whether finish() returns at once.
  bool is_done() const;
  /// Waits until the checkpoint is committed. All ranks have ended writing, so a file that is not
  /// here within a second has been removed, or lies in a folder that this rank does not see.
  ///   failure: why a rank could not write its files; empty: all wrote them
  /// throws: Error if it can't be committed; its files are gone then
  void finish(const std::string& failure = "");

 private:
  enum Wait { patient, hasty, over };
  int step_;
  std::shared_ptr<std::atomic<Wait>> wait_ = std::make_shared<std::atomic<Wait>>(patient);
  std::future<void> committed_;
};

}  // namespace plangrad::parallel
