// Checkpoints: a folder that holds a run as of one step, whole or not at all.
// Not here: what a run consists of (the caller's JSON), and how its ranks were laid out: tensors
// are found by parameter name, so any cut of the model reads what any other wrote. Chapter 02.
//
// The room nn/checkpoint brings tensors to files and back. Nothing that a file holds is trusted:
// checkpoint.h   start here: runs, to be continued: data files, and a manifest that names them
// safetensors.h  one data file: named tensors, mapped into memory, every rule of the format checked
// gpt_files.h    a GPT in Hugging Face's layout, for other programs
// file.h         whole files in and out, for readers of other formats; formats.h: what files share
// What is written replaces what was there in one step, so a write that fails leaves the earlier
// file. An error names the file, what was expected in it and what was found.
// Ranks write files of their own and rank 0 commits them (parallel/session); a reader opens all of
// them at once and asks for tensors by name. Other state of a run is another buffer by name, here
// without change; another format is another file, which knows flat buffers and parameters only.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nn/checkpoint/safetensors.h"
#include "nn/models/parameter.h"

namespace paragrad::nn {

/// A data file as the manifest lists it.
struct CheckpointFile {
  std::string name;  ///< within the folder
  std::int64_t bytes = 0;
};

/// The name of the buffer, of i32, that says which elements of pruned parameters a run keeps, in
/// ascending order: "index/h.0.attn.c_attn.weight". Their other tensors may hold these elements
/// alone.
inline constexpr const char* index_name = "index";

/// The name of the weights `back` versions before the newest: "version-1"; of the newest, "".
/// throws: Error if back is negative
std::string version_name(int back);

/// The first half of a save: cuts flat buffers into one tensor per parameter and writes them to
/// STEM-STEP.safetensors, on disk when it returns: weights under their parameters' names, a buffer
/// of state as "first_moment/wte.weight". Copies one tensor at a time to the host. Several ranks
/// may write, under stems of their own and parameters that nobody else writes.
/// shapes: each buffer (parameters.numel())
/// throws: Error if a buffer does not fit or the disk refuses; the earlier checkpoint stays
CheckpointFile write_checkpoint_file(const std::filesystem::path& folder, const std::string& stem,
                                     std::int64_t step, const ParameterList& parameters,
                                     const FlatBuffers& buffers);

/// The second half, once all files are written: makes them the checkpoint that the folder offers,
/// and removes the files of earlier and interrupted saves. Until manifest.json is replaced, which
/// is one step, the folder offers what it held before.
void commit_checkpoint(const std::filesystem::path& folder, std::int64_t step,
                       const nlohmann::json& run, const std::vector<CheckpointFile>& files);

/// A complete checkpoint, opened for reading. It can be read on while the folder gets a newer one.
class Checkpoint {
 public:
  /// throws: Error if there is none, or its manifest or a data file is damaged
  explicit Checkpoint(const std::filesystem::path& folder);

  std::int64_t step() const { return step_; }
  const nlohmann::json& run() const { return *run_; }

  /// throws: Error unless the weights are those of `model`, no more, no fewer, of the same shapes
  void check_model(const ParameterList& model) const;

  /// The kept elements of a pruned parameter.
  std::optional<std::vector<std::int32_t>> index(const std::string& parameter) const;

  /// Fills a flat buffer with the weights of `parameters`, a model or any of its stages. Where file
  /// and buffer differ in type, each value is rounded to the buffer's. (A bf16 run's exact weights
  /// are its state "master".) Where the file has but the kept elements of a pruned parameter, the
  /// others are zero.
  /// throws: Error if a tensor is missing or has another shape; the buffer may be half filled then
  void load_weights(const ParameterList& parameters, const Tensor& weights) const {
    load_version(0, parameters, weights);
  }
  /// Fills a buffer with the weights as they were `back` versions before the newest. Where a
  /// parameter has no version that old, its oldest one is taken: layouts differ in what they keep.
  void load_version(int back, const ParameterList& parameters, const Tensor& weights) const;
  /// Fills a buffer of Optimizer::state(), whose type must be the file's.
  void load_state(const std::string& name, const ParameterList& parameters,
                  const Tensor& state) const;
  /// Whether there is a buffer of this name; whether it has this parameter.
  bool has_state(const std::string& name) const;
  bool has_state(const std::string& name, const Parameter& parameter) const;
  /// Fills the state of one parameter, which need not be there, or may have another shape; returns
  /// whether it is there.
  bool load_state_if_any(const std::string& name, const Parameter& parameter,
                         const Tensor& state) const;

 private:
  void copy_state(const SafetensorsEntry& entry, const Parameter& parameter,
                  const Tensor& state) const;
  void copy(const SafetensorsEntry& entry, const Parameter& parameter, const Tensor& y) const;
  const SafetensorsEntry* entry(const std::string& tensor) const;  // null: not there
  const SafetensorsEntry& find(const std::string& tensor, const Parameter& parameter) const;
  void open_file(const std::filesystem::path& path, std::int64_t bytes);

  std::string title_;  // what messages call it
  std::int64_t step_ = 0;
  std::shared_ptr<const nlohmann::json> run_;
  std::vector<SafetensorsFile> files_;               // keep the bytes of tensors_ mapped
  std::map<std::string, SafetensorsEntry> tensors_;  // of all files
};

}  // namespace paragrad::nn
