// Checkpoints: folders that hold a run after some step, either complete or not at all.
// Not here: the description of the run (the caller's JSON), and the layout of its ranks: tensors
// are found by parameter name, so every cut of the model reads what any other wrote. Chapter 02.
//
// The room nn/checkpoint writes tensors to files and reads them back. It trusts no file's content:
// checkpoint.h   start here: runs that can be resumed: data files, and a manifest that names them
// safetensors.h  one data file: named tensors, mapped into memory, every rule of the format checked
// gpt_files.h    a GPT in Hugging Face's layout, for other programs
// file.h         reads and writes whole files of other formats; formats.h: shared by these files
// A new file replaces an old one in one step, so a write that fails leaves the old one intact. An
// error names the file, what was expected in it and what was found.
// Ranks write files of their own and rank 0 commits them (parallel/session); a reader opens all of
// them and asks for tensors by name. New state of a run is a buffer with a new name, and nothing
// here changes; a new format is a new file, which knows flat buffers and parameters only.
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
  std::string name;  ///< in the checkpoint's folder
  std::int64_t bytes = 0;
};

/// The name of the i32 buffer with the indices of pruned parameters' kept elements, in ascending
/// order: "index/h.0.attn.c_attn.weight". Other tensors of these parameters may hold only the kept
/// elements.
inline constexpr const char* index_name = "index";

/// The name of the weights `back` versions before the newest: "version-1"; "" for the newest.
/// throws: Error if back is negative
std::string version_name(int back);

/// Writes a data file, the first half of a save: cuts flat buffers into one tensor per parameter
/// and writes them to STEM-STEP.safetensors, weights under their parameters' names, state as
/// "first_moment/wte.weight". Copies one tensor at a time to the host; the file is on disk on
/// return. Several ranks may write, each with a stem and parameters that no other rank writes.
/// shapes: each buffer (parameters.numel())
/// throws: Error if a buffer does not fit or can't be written; the earlier checkpoint stays
CheckpointFile write_checkpoint_file(const std::filesystem::path& folder, const std::string& stem,
                                     std::int64_t step, const ParameterList& parameters,
                                     const FlatBuffers& buffers);

/// Completes a save once all data files are written: makes them the folder's checkpoint, and
/// removes the files of earlier and interrupted saves. Until manifest.json is replaced, in one
/// step, the folder holds the earlier checkpoint.
void commit_checkpoint(const std::filesystem::path& folder, std::int64_t step,
                       const nlohmann::json& run, const std::vector<CheckpointFile>& files);

/// The folder of a run's checkpoint: `run` itself if that is one, else run/checkpoint.
std::filesystem::path checkpoint_of(const std::filesystem::path& run);

/// A complete checkpoint, opened for reading. It stays readable when the folder gets a newer one.
class Checkpoint {
 public:
  /// throws: Error if the folder has no checkpoint, or its manifest or a data file is damaged
  explicit Checkpoint(const std::filesystem::path& folder);

  std::int64_t step() const { return step_; }
  const nlohmann::json& run() const { return *run_; }

  /// throws: Error unless the weights are exactly those of `model`, with the same shapes
  void check_model(const ParameterList& model) const;

  /// The indices of a pruned parameter's kept elements; nothing for a dense parameter.
  std::optional<std::vector<std::int32_t>> index(const std::string& parameter) const;

  /// Fills a flat buffer with the weights of `parameters`, a model or any of its stages. If file
  /// and buffer differ in type, values are rounded to the buffer's. (A bf16 run's exact weights are
  /// its state "master".) If the file has only the kept elements of a pruned parameter, the others
  /// are zero.
  /// throws: Error if a tensor is missing or has another shape; the buffer may then be half filled
  void load_weights(const ParameterList& parameters, const Tensor& weights) const {
    load_version(0, parameters, weights);
  }
  /// Fills a buffer with the weights `back` versions before the newest. A parameter that has no
  /// version that old gets its oldest one: layouts differ in the versions that they keep.
  void load_version(int back, const ParameterList& parameters, const Tensor& weights) const;
  /// Fills a buffer of Optimizer::state(), which must have the type in the file.
  void load_state(const std::string& name, const ParameterList& parameters,
                  const Tensor& state) const;
  /// Whether there is a buffer of this name, and whether it has this parameter.
  bool has_state(const std::string& name) const;
  bool has_state(const std::string& name, const Parameter& parameter) const;
  /// Fills the state of one parameter if the checkpoint has it, possibly with another shape;
  /// returns whether it does.
  bool load_state_if_any(const std::string& name, const Parameter& parameter,
                         const Tensor& state) const;

 private:
  void copy_state(const SafetensorsEntry& entry, const Parameter& parameter,
                  const Tensor& state) const;
  void copy(const SafetensorsEntry& entry, const Parameter& parameter, const Tensor& y) const;
  const SafetensorsEntry* entry(const std::string& tensor) const;  // null if there is none
  const SafetensorsEntry& find(const std::string& tensor, const Parameter& parameter) const;
  void open_file(const std::filesystem::path& path, std::int64_t bytes);

  std::string title_;  // names the checkpoint in messages
  std::int64_t step_ = 0;
  std::shared_ptr<const nlohmann::json> run_;
  std::vector<SafetensorsFile> files_;               // keep the bytes of tensors_ mapped
  std::map<std::string, SafetensorsEntry> tensors_;  // of all files
};

}  // namespace paragrad::nn
