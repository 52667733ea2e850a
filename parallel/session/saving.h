// Saves: the weights and optimizer state of an engine to a checkpoint, and back. Every rank writes
// and reads its own stages; the files do not tell how the run was laid out, nor whether its state
// was sharded. For pruned parameters they hold the index and the stored elements.
// Saves go on while the run trains: each rank's StateWriter writes copies of its state in a thread,
// and rank 0's CommitThread commits the checkpoint once the files of all ranks are there.
// Not here: the format (nn/checkpoint/checkpoint.h). Chapters 07, 10, 11 and 15.
#pragma once

#include <atomic>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/engine.h"
#include "parallel/session/agreement.h"

namespace plangrad::parallel {

// ---- state files (state_files.cpp) ----

/// A data file of a stage's state, as this rank holds it.
struct StagePart {
  std::string stem;
  ParameterList parameters;
  FlatBuffers buffers;
  bool sharded = false;  ///< the buffers are shards; the file has them whole
};
std::vector<StagePart> parts_of(WeightStore& store, int stage, const Plan& plan);

/// Writes the stages that this rank holds and no lower one does, with all versions that are alive.
/// All ranks call it together: those that hold shards of a stage gather it, one stage at a time.
/// Commit the files of all ranks together afterwards.
void write_state(Engine& engine, const Plan& plan, const WriteFile& write_file);

/// Fills the engine's stages, which prepare() has made for a plan that begins at the checkpoint's
/// step. Versions that the checkpoint lacks begin as its oldest one.
void read_state(const Checkpoint& checkpoint, Engine& engine);

/// The whole number, or the map to such, that a checkpoint's JSON has under a key; else `absent`.
/// throws: Error if it has something else there
template <class T>
T of_run(const Checkpoint& checkpoint, const char* key, const T& absent) {
  try {
    const nlohmann::json found = checkpoint.run().value(key, nlohmann::json(absent));
    for (const nlohmann::json& number : found)  // what runs write there are whole numbers
      whole_number(number);
    return found.get<T>();
  } catch (const nlohmann::json::exception&) {
    throw Error(text("the checkpoint's manifest is damaged: what it says of \"", key,
                     "\" is not what a run writes there"));
  }
}

// ---- the memory of codecs: residuals, thresholds, factors ----

/// Writes this rank's residuals, and the factors of stages that no lower rank holds.
void write_codec_state(Engine& engine, const Plan& plan, const WriteFile& write_file);
/// This rank's numbers for the checkpoint's JSON: thresholds by place, uses.
nlohmann::json codec_numbers(Engine& engine);

/// Fills the codecs that prepare() has made for the plan. A rank takes the residual that it wrote,
/// for the elements that it still encodes; the first rank that encodes the others takes the rest.
/// So all that was left out reaches the sum sooner or later. Thresholds come from a checkpoint of
/// the same cut, ranks, codecs and reduction; else they are chosen anew. A checkpoint without a
/// codec has nothing.
void read_codec_state(const Checkpoint& checkpoint, Engine& engine, const Plan& plan);

/// A message for the user: the plan's codec has no use for what the checkpoint's codec has left
/// out, or the sums of these layers are not encoded any more. Empty: nothing is lost.
std::string lost_residual(const Checkpoint& checkpoint, const Plan& plan, const Training& training);

/// The codecs, cut and ranks that the codec numbers of a checkpoint belong to, as JSON.
nlohmann::json codec_layout(const Engine& engine, const Plan& plan);

// ---- saves while the run trains (saving.cpp) ----

/// Waits for work on a disk. A disk whose host is gone may keep it for ever, so a line says after
/// each period that a save still waits.
template <class T>
T wait_for_disk(std::future<T>& work, std::chrono::milliseconds period = std::chrono::seconds(30),
                std::ostream& out = std::cerr) {
  for (auto waited = period; work.wait_for(period) != std::future_status::ready; waited += period)
    out << text("a save has waited for its disk for ", waited.count() / 1000.0,
                " s; is the disk's host still there?\n");
  return work.get();
}

/// A rank's part of saves.
class StateWriter {
 public:
  /// Copies each file's buffers, in their type. The copies last until the files are written.
  nn::WriteFile taker();
  /// Begins to write what was taken, and describes the files to come. The save before must be over.
  std::vector<nn::CheckpointFile> start(std::filesystem::path folder, nn::SaveMark mark);
  /// Waits until the files are on disk, and returns them; one that can't be written says why.
  std::vector<nn::CheckpointFile> finish();

 private:
  std::vector<StagePart> taken_;                          // all of them whole
  std::future<std::vector<nn::CheckpointFile>> written_;  // its destructor waits
};

/// Rank 0's part of a save.
class CommitThread {
 public:
  /// Waits for these files in a thread, and commits them (nn::commit_checkpoint).
  ///   before: a file that is put on disk before; empty: none
  ///   claim: of the folder, to which nothing is done if another one has its name by then
  CommitThread(std::filesystem::path folder, std::filesystem::path before, nn::SaveMark mark,
               nlohmann::json run, std::vector<nn::CheckpointFile> files, nn::Retention retention,
               std::shared_ptr<FolderLock> claim = nullptr);
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
