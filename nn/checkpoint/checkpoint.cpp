// Reads checkpoints: opens every file and checks its size before a tensor is asked for.
// Not here: saving (nn/checkpoint/checkpoint_save.cpp). Chapter 02.
#include "nn/checkpoint/checkpoint.h"

#include <cstring>
#include <set>

#include "autograd/backend.h"

namespace plangrad::nn {
namespace {

namespace fs = std::filesystem;

/// The dtype of a tensor in a data file.
DType dtype_of(const SafetensorsEntry& entry) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32})
    if (entry.dtype == safetensors_dtype(dtype)) return dtype;
  throw Error(text("checkpoint: tensor ", entry.name, " holds ", entry.dtype,
                   ", expected F32, BF16, F64 or I32"));
}

/// Copies the bytes of a tensor to the device, which converts it if the types differ.
void copy_bytes(const SafetensorsEntry& entry, const std::vector<std::byte>& bytes,
                const Tensor& y) {
  if (dtype_of(entry) == y.dtype()) return y.backend().copy_from_host(bytes.data(), y);
  const Tensor staged = workspace(y.shape(), dtype_of(entry), y.device());
  staged.backend().copy_from_host(bytes.data(), staged);
  y.backend().copy(staged, y);
}

}  // namespace

std::string checksum_of(const SafetensorsEntry& entry) {
  std::uint32_t sum = 0;
  entry.read_parts([&](format::Bytes part) { sum = crc32_of(part, sum); });
  return digits_of(sum);
}

std::string version_name(int back) {
  PG_CHECK(back >= 0, "weights ", back, " versions back: the newest version is 0 back");
  return back == 0 ? "" : text("version-", back);
}

Checkpoint::Checkpoint(const fs::path& folder, const std::string& name)
    : title_("the checkpoint " + folder.string()), manifest_(read_manifest(folder, name)) {
  for (const CheckpointFile& file : manifest_.files) open_file(folder / file.name, file);
}

/// Compares a file's mark with the manifest's; files without a mark are those of version 1.
void Checkpoint::check_mark(const SafetensorsFile& file, const std::string& name) const {
  const std::map<std::string, std::string>& mark = file.metadata();
  const auto step = mark.find("step"), run = mark.find("run");
  PG_CHECK(step == mark.end() || step->second == std::to_string(this->step()), title_,
           " is damaged: ", name, " is of update ", step->second, ", its manifest of update ",
           this->step());
  PG_CHECK(!has_checksums() || (run != mark.end() && run->second == run_id()), title_,
           " is damaged: ", name, " belongs to another run than its manifest");
}

void Checkpoint::open_file(const fs::path& path, const CheckpointFile& listed) {
  const auto& [name, bytes, checksums, failure] = listed;
  std::error_code problem;
  auto found = fs::file_size(path, problem);
  PG_CHECK(!problem, title_, " is not complete: it lacks ", name, ", which its manifest lists");
  PG_CHECK(static_cast<std::int64_t>(found) == bytes, title_, " is damaged: ", name, " has ", found,
           " bytes, its manifest says ", bytes);
  const SafetensorsFile& file = files_.emplace_back(path.string());
  check_mark(file, name);
  if (has_checksums()) check_checksums(title_, file, checksums, /*all*/ false);
  checksums_.insert(checksums.begin(), checksums.end());
  for (const SafetensorsEntry& entry : file.entries())
    PG_CHECK(tensors_.emplace(entry.name, entry).second, title_, " is damaged: ", entry.name,
             " is in two of its files");
}

void check_checksums(const std::string& title, const SafetensorsFile& file,
                     const Checksums& expected, bool all) {
  const std::string path = fs::path(file.path()).filename().string();
  auto check = [&](const std::string& name, const auto& checksum) {
    const auto found = expected.find(name);
    const bool is_header = name == format::metadata_key;
    const std::string part = is_header ? "its header" : "tensor " + format::in_quotes(name);
    PG_CHECK(found != expected.end(), title, " is damaged: ", path, ": ", part, " has no checksum");
    if (!all && !is_header) return;
    const std::string here = checksum();
    PG_CHECK(here == found->second, title, " is damaged: ", path, ": ", part, " has the checksum ",
             here, ", it was written with ", found->second);
  };
  check(format::metadata_key, [&] { return checksum_of(file.header()); });
  for (const SafetensorsEntry& entry : file.entries())
    check(entry.name, [&] { return checksum_of(entry); });
  PG_CHECK(expected.size() == file.entries().size() + 1, title, " is damaged: ", path,
           " lacks a tensor");
}

void Checkpoint::check(const SafetensorsEntry& entry, const std::string& here) const {
  if (!has_checksums()) return;
  const std::string& written = checksums_.at(entry.name);
  PG_CHECK(here == written, title_, " is damaged: ", entry.file->path().filename().string(),
           ": tensor ", format::in_quotes(entry.name), " has the checksum ", here,
           ", it was written with ", written);
}

/// Checks the bytes that are used: those of a second reading may be others.
std::vector<std::byte> Checkpoint::checked_bytes(const SafetensorsEntry& entry) const {
  std::vector<std::byte> bytes = entry.bytes();
  check(entry, checksum_of(bytes));
  return bytes;
}

std::shared_ptr<const Checkpoint> OpenedCheckpoint::get() const {
  std::lock_guard lock(mutex_);
  PG_CHECK(checkpoint_, "the checkpoint of update ", manifest_.step, " is closed: sessions that ",
           "resume it one after the other open it anew");
  return checkpoint_;
}

void OpenedCheckpoint::close() {
  std::lock_guard lock(mutex_);
  checkpoint_ = nullptr;
}

void Checkpoint::verify() const {
  for (const auto& [name, entry] : tensors_) check(entry, checksum_of(entry));
}

const SafetensorsEntry& Checkpoint::find(const std::string& tensor,
                                         const Parameter& parameter) const {
  const SafetensorsEntry* found = entry(tensor);
  PG_CHECK(found, title_, " has no tensor ", tensor, ", which the model has as ", parameter.shape,
           "; it belongs to another model or optimizer");
  const SafetensorsEntry* index = entry(tensor_name(index_name, parameter.name));
  const bool compressed = index && found->shape == index->shape;
  PG_CHECK(compressed || found->shape == parameter.shape, title_, " has ", tensor, " as ",
           found->shape, ", the model as ", parameter.shape, "; it belongs to another model");
  return *found;
}

const SafetensorsEntry* Checkpoint::entry(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::optional<std::vector<std::int32_t>> Checkpoint::index(const std::string& parameter) const {
  const SafetensorsEntry* saved = entry(tensor_name(index_name, parameter));
  if (!saved) return {};
  PG_CHECK(dtype_of(*saved) == DType::i32, title_, " has ", saved->name, " in ", dtype_of(*saved),
           ", which can't count elements; it is damaged");
  std::vector<std::int32_t> index(saved->shape.numel());
  std::memcpy(index.data(), checked_bytes(*saved).data(), saved->size);
  PG_CHECK(std::adjacent_find(index.begin(), index.end(), std::greater_equal<>()) == index.end() &&
               (index.empty() || index.front() >= 0),
           title_, " is damaged: the indices in ", saved->name, " do not ascend");
  return index;
}

/// Copies a parameter's values. If the file has only the kept elements, puts them among zeros.
void Checkpoint::copy(const SafetensorsEntry& entry, const Parameter& parameter,
                      const Tensor& y) const {
  const std::vector<std::byte> bytes = checked_bytes(entry);
  if (entry.shape == parameter.shape) return copy_bytes(entry, bytes, y);
  CategoryScope category(*y.device(), Category::workspace);
  const Tensor kept = empty(entry.shape, y.dtype(), y.device());
  copy_bytes(entry, bytes, kept);
  y.backend().expand(kept, from_host(*index(parameter.name), entry.shape, y.device()), y);
}

void Checkpoint::check_model(const ParameterList& model) const {
  std::set<std::string> names;
  for (const Parameter& parameter : model) {
    find(parameter.name, parameter);
    names.insert(parameter.name);
  }
  for (const auto& [name, entry] : tensors_)
    PG_CHECK(names.contains(name) || name.find('/') != name.npos, title_, " has a tensor ", name,
             " ", entry.shape, ", which the model lacks; it belongs to another model");
}

void Checkpoint::load_version(int back, const ParameterList& parameters,
                              const Tensor& weights) const {
  check_buffer(parameters, weights, "to fill");
  for (const Parameter& parameter : parameters) {
    std::string name = tensor_name(version_name(back), parameter.name);
    for (int b = back; b > 0 && !tensors_.contains(name);)
      name = tensor_name(version_name(--b), parameter.name);
    copy(find(name, parameter), parameter, weights.window(parameter.offset, parameter.shape));
  }
}

void Checkpoint::load_state(const std::string& name, const ParameterList& parameters,
                            const Tensor& state) const {
  check_buffer(parameters, state, "to fill");
  for (const Parameter& parameter : parameters)
    copy_state(find(tensor_name(name, parameter.name), parameter), parameter,
               state.window(parameter.offset, parameter.shape));
}

bool Checkpoint::has_state(const std::string& name) const {
  const auto found = tensors_.lower_bound(name + "/");
  return found != tensors_.end() && found->first.starts_with(name + "/");
}

bool Checkpoint::has_state(const std::string& name, const Parameter& parameter) const {
  return tensors_.contains(tensor_name(name, parameter.name));
}

bool Checkpoint::load_state_if_any(const std::string& name, const Parameter& parameter,
                                   const Tensor& state) const {
  const SafetensorsEntry* saved = entry(tensor_name(name, parameter.name));
  if (!saved || saved->shape != parameter.shape) return false;
  copy_state(*saved, parameter, state);
  return true;
}

void Checkpoint::copy_state(const SafetensorsEntry& entry, const Parameter& parameter,
                            const Tensor& state) const {
  PG_CHECK(dtype_of(entry) == state.dtype(), title_, " has ", entry.name, " in ", dtype_of(entry),
           ", the run in ", state.dtype(),
           "; state is not converted, so resume with the dtype that it was saved with");
  copy(entry, parameter, state);
}

}  // namespace plangrad::nn
