// StateWriter: a rank's data files of a save. The rank copies its state to memory of the host, and
// a thread writes the copy while the rank trains on.
// Not here: the manifest, which rank 0 commits once all ranks have written (session_save.cpp).
// Chapter 15.
#pragma once

#include <filesystem>
#include <future>
#include <vector>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/training.h"

namespace plangrad::parallel {

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

}  // namespace plangrad::parallel
