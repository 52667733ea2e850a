// Checkpoints: folders that hold a run after some step, either complete or not at all.
// Not here: the description of the run (the caller's JSON), and the layout of its ranks: tensors
// are found by parameter name, so every cut of the model reads what any other wrote. Chapter 02.
//
// The room nn/checkpoint writes tensors to files and reads them back. It trusts no file's content:
// checkpoint.h   start here: runs that can be resumed: data files, and a manifest that names them
// safetensors.h  one data file: named tensors, read when asked for; each rule of the format checked
// gpt_files.h    a GPT in Hugging Face's layout, for other programs
// file.h         whole files of other formats; checksums, which find damage, of each tensor and of
//                all other bytes
// A new file replaces an old one in one step, so a write that fails leaves the old one intact. An
// error names the file, what was expected in it and what was found.
// Ranks write files of their own and rank 0 commits them (parallel/session); a reader opens all of
// them and asks for tensors by name. New state of a run is a buffer with a new name, and nothing
// here changes; a new format is a new file, which knows flat buffers and parameters only.
#pragma once

#include <optional>
#include <tuple>

#include "nn/checkpoint/safetensors.h"
#include "nn/models/model.h"

namespace plangrad::nn {

/// The name of the newest checkpoint's manifest; that of an older one is called manifest-STEP.json.
inline constexpr const char* manifest_name = "manifest.json";

/// A data file as the manifest lists it.
struct CheckpointFile {
  std::string name;  ///< the file's name in the checkpoint's folder
  std::int64_t bytes = 0;
  Checksums checksums = {};
  std::string failure = {};  ///< why it could not be written; empty: it was
  static auto fields(auto& x) { return std::tie(x.name, x.bytes, x.checksums, x.failure); }
};

/// What a checkpoint's manifest says.
struct Manifest {
  std::int64_t step = 0;
  std::string run_id;  ///< empty, as is `build`, in version 1, which has no checksums, either
  std::string build;   ///< the build of the program that wrote it
  std::shared_ptr<const nlohmann::json> run;  ///< the caller's description
  std::vector<CheckpointFile> files;
  std::string checksum = {};  ///< checksum of the manifest as it was read, and so of all content
};

/// throws: Error if the folder has no such manifest, or a damaged one
Manifest read_manifest(const std::filesystem::path& folder, const std::string& name);
/// throws: Error if the run's description is not UTF-8
std::string manifest_text(const Manifest& manifest);

/// Reads a tensor's bytes, and returns their checksum.
std::string checksum_of(const SafetensorsEntry& entry);

/// throws: Error that begins with `title`, unless the file's header and, if `all`, all of its
/// tensors have these checksums
void check_checksums(const std::string& title, const SafetensorsFile& file,
                     const Checksums& expected, bool all);

/// Identifies a save: the run and its number of updates. All files of a checkpoint carry it.
struct SaveMark {
  std::int64_t step;
  std::string run_id;  ///< chosen at random when the run began
  SaveMark(std::int64_t updates, std::string id = "") : step(updates), run_id(std::move(id)) {}
};

/// Which of a folder's checkpoints stay when a newer one is committed.
struct Retention {
  int count = 1;  ///< how many stay, with the new one
  /// Older ones stay if they are the run's up to this update, which it continued from or saved.
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  /// A newer update of the run that is replaced, as it is damaged or was not continued from.
  std::int64_t given_up = -1;
};

/// The name of the i32 buffer with the indices of pruned parameters' kept elements, in ascending
/// order: "index/h.0.attn.c_attn.weight". Other tensors of these parameters may hold only the kept
/// elements.
inline constexpr const char* index_name = "index";

/// The name of a parameter's part of a flat buffer. The weights' buffer is called "", so its parts
/// have the names of parameters.
inline std::string tensor_name(const std::string& buffer, const std::string& parameter) {
  return buffer.empty() ? parameter : buffer + "/" + parameter;
}

/// The name of the weights `back` versions before the newest: "version-1"; "" for the newest.
/// throws: Error if back is negative
std::string version_name(int back);

/// Writes a data file, the first half of a save: cuts flat buffers into one tensor per parameter
/// and writes them to STEM-STEP.safetensors, with the mark in its metadata: weights under their
/// parameters' names, state as "first_moment/wte.weight". Copies one tensor at a time to the host;
/// the file is on disk on return. Several ranks may write, each with a stem and parameters that no
/// other rank writes. A file that can't be written has a `failure`, which commit_checkpoint throws:
/// ranks gather buffers between their files, and would wait for one that threw.
/// shapes: each buffer (parameters.numel())
/// throws: Error if a buffer does not fit
CheckpointFile write_checkpoint_file(const std::filesystem::path& folder, const std::string& stem,
                                     const SaveMark& mark, const ParameterList& parameters,
                                     const FlatBuffers& buffers);

/// Describes the file that write_checkpoint_file would write, for rank 0 to wait for.
CheckpointFile describe_checkpoint_file(const std::filesystem::path& folder,
                                        const std::string& stem, const SaveMark& mark,
                                        const ParameterList& parameters,
                                        const FlatBuffers& buffers);

/// Takes a data file of a save, which it writes at once or later: STEM, and flat buffers that are
/// cut into one tensor per parameter.
using WriteFile = std::function<void(const std::string& stem, const ParameterList& parameters,
                                     const FlatBuffers& buffers)>;

/// Writes each file at once, and adds it to `files`.
WriteFile write_at_once(std::filesystem::path folder, SaveMark mark,
                        std::vector<CheckpointFile>& files);

/// Completes a save once all data files are written: makes them the folder's newest checkpoint, and
/// removes the files of interrupted saves and of checkpoints that do not stay. Until manifest.json
/// is replaced, in one step, the folder's newest checkpoint is the earlier one. No other file is
/// removed: a file is ours if a manifest of the folder names it, or its header has its name.
/// throws: Error if a file is not in the folder as its writer describes it, or can't be written, or
///         the folder has a newer update of the run that was not given up. The earlier checkpoints
///         stay, and the files of this one are removed
void commit_checkpoint(const std::filesystem::path& folder, const SaveMark& mark,
                       const nlohmann::json& run, const std::vector<CheckpointFile>& files,
                       const Retention& retention = {});

/// Before a save, gives up the run's oldest checkpoint if that is what the disk lacks for a new one
/// as large as the newest, which stays and must be intact. Removes what interrupted saves left,
/// too. Returns a line for the user; empty if there is room, or no way to make it.
std::string make_room(const std::filesystem::path& folder, const std::string& run_id);

/// The folder of a run's checkpoint: run/checkpoint, or `run` itself if that alone has manifests.
std::filesystem::path checkpoint_of(const std::filesystem::path& run);

/// The folder of the run whose checkpoint a folder holds: `folder`, or what its checkpoint/ is in.
/// throws: Error if the folder holds a checkpoint under another name, such as a copy
std::filesystem::path run_of(const std::filesystem::path& folder);

/// The names of the manifests of a folder's checkpoints, the newest first.
std::vector<std::string> manifests_of(const std::filesystem::path& folder);

/// A complete checkpoint, opened for reading. It stays readable when the folder gets a newer one.
class Checkpoint {
 public:
  /// Checks the manifest, and sizes, headers and marks of the data files. Tensors are checked when
  /// they are read.
  /// throws: Error if the folder has no checkpoint, or its manifest or a data file is damaged
  explicit Checkpoint(const std::filesystem::path& folder,
                      const std::string& manifest = manifest_name);

  /// Reads all bytes. throws: Error if any of them is damaged
  void verify() const;
  /// Whether damage is found: plangrad 0.1 wrote checkpoints without checksums.
  bool has_checksums() const { return !build().empty(); }

  const Manifest& manifest() const { return manifest_; }
  std::int64_t step() const { return manifest_.step; }
  const std::string& run_id() const { return manifest_.run_id; }
  const std::string& build() const { return manifest_.build; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  const nlohmann::json& run() const { return *manifest_.run; }

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
  void check(const SafetensorsEntry& entry, const std::string& here) const;
  std::vector<std::byte> checked_bytes(const SafetensorsEntry& entry) const;
  void check_mark(const SafetensorsFile& file, const std::string& name) const;
  void open_file(const std::filesystem::path& path, const CheckpointFile& listed);

  std::string title_;  // names the checkpoint in messages
  Manifest manifest_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, SafetensorsEntry> tensors_;  // of all files
  Checksums checksums_;                              // likewise
};

/// A checkpoint is intact, but of a format that only newer versions of plangrad read.
struct NewerFormat : Error {
  using Error::Error;
};

/// A checkpoint of a folder that can be continued from.
struct IntactCheckpoint {
  std::string manifest;
  /// A line for the user: which newer ones are damaged, or that damage would not be found; empty if
  /// there is nothing to say.
  std::string news;
  std::shared_ptr<const Checkpoint> checkpoint;  ///< its files are open
};

/// Finds the newest checkpoint of a folder that is not damaged, and reads all bytes of it. A run
/// may save there meanwhile.
///   step: only the checkpoint of this update; -1: any
/// throws: Error of the newest one if none is intact; NewerFormat or Unreadable if a newer one is
IntactCheckpoint find_intact(const std::filesystem::path& folder, std::int64_t step = -1);

/// A checkpoint that a process opens once, for all of its ranks: files that are replaced or deleted
/// later do not change it.
class OpenedCheckpoint {
 public:
  explicit OpenedCheckpoint(std::shared_ptr<const Checkpoint> checkpoint)
      : manifest_(checkpoint->manifest()), checkpoint_(std::move(checkpoint)) {}

  const Manifest& manifest() const { return manifest_; }
  /// throws: Error if it is closed
  std::shared_ptr<const Checkpoint> get() const;
  /// Lets go of the files, whose room is free once nobody reads them.
  void close();

 private:
  const Manifest manifest_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

}  // namespace plangrad::nn
