// CommitThread: commits a checkpoint once the files of all ranks are there, while the run goes on.
// Not here: who writes the files (state_writer.h). Chapter 15.
#pragma once

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nn/checkpoint/checkpoint.h"

namespace plangrad::parallel {

class CommitThread {
 public:
  /// Waits for these files in a thread, and commits them (nn::commit_checkpoint).
  ///   metrics: the file of metrics, which is put on disk before
  CommitThread(std::filesystem::path folder, std::filesystem::path metrics, nn::SaveMark mark,
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
