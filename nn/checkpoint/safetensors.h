// Safetensors: named tensors in one file, as 8 bytes of header length, a JSON header, raw bytes.
// Not here: tensors and devices. This file moves bytes; code that loads a model interprets them.
// Chapter 02; the format of Hugging Face, with all of its validity rules.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "autograd/shape.h"
#include "nn/checkpoint/file.h"

namespace plangrad::nn {
using namespace autograd;

/// One tensor of an open file, which stays open for it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the format writes it: F32, BF16, I64, ...
  Shape shape;
  std::size_t size = 0;  // in bytes

  /// Reads all bytes, which are row-major and little-endian.
  /// throws: Error if the file has become shorter; Unreadable
  std::vector<std::byte> bytes() const;
  /// Reads the bytes and hands them on, some at a time. Throws as bytes() does.
  void read_parts(const std::function<void(std::span<const std::byte>)>& take) const;

  std::shared_ptr<const OpenFile> file = {};
  std::uint64_t begin = 0;  // of the bytes in the file
};

/// Checksums of a file's parts: by name those of the tensors' bytes, and as "__metadata__", a name
/// that no tensor has, that of all bytes before them. Together they cover the file.
using Checksums = std::map<std::string, std::string>;

/// A file opened for reading. Its whole header is checked, and a tensor's bytes are read when they
/// are asked for. Copies share the open file.
class SafetensorsFile {
 public:
  /// throws: Error if the file can't be read or breaks a rule of the format
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// All tensors, in the order of their data in the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// All bytes before the tensors.
  std::span<const std::byte> header() const { return *header_; }

 private:
  std::string path_;
  std::shared_ptr<const std::vector<std::byte>> header_;
  std::map<std::string, std::string> metadata_;
  std::vector<SafetensorsEntry> entries_;
};

/// One tensor to write. `bytes` is called once, when the tensor's turn comes, so that it may copy
/// from a device first; the bytes that it returns must last until the next tensor's turn.
struct SafetensorsSource {
  std::string name;
  std::string dtype;
  Shape shape;
  std::function<std::span<const std::byte>()> bytes;
};

/// Writes the tensors in the given order. The file is written as `path` + partial, and renamed when
/// it is complete and on disk, so a write that fails leaves an earlier file as it was. Returns the
/// checksums of what was written.
/// throws: Error if the format can't describe a tensor, or the file can't be written
Checksums write_safetensors(const std::string& path,
                            const std::map<std::string, std::string>& metadata,
                            const std::vector<SafetensorsSource>& tensors);

/// The checksums and the bytes of the file that write_safetensors would write.
std::pair<Checksums, std::int64_t> describe_safetensors(
    const std::string& path, const std::map<std::string, std::string>& metadata,
    const std::vector<SafetensorsSource>& tensors);

/// What reader and writer share.
namespace format {

using Bytes = std::span<const std::byte>;

inline constexpr std::uint64_t length_bytes = 8, header_limit = 100'000'000;
inline constexpr const char* metadata_key = "__metadata__";

/// Quotes a name for an error: on one line, whatever characters it has, and its beginning alone if
/// it is long.
std::string in_quotes(const std::string& name);

/// The bytes of a tensor. All partial products must fit in 63 bits, even if a later size is 0.
/// throws: Error that begins with `where`, if they do not, or if the format has no such dtype
std::int64_t checked_byte_count(const std::string& where, const std::string& dtype,
                                const std::vector<std::int64_t>& sizes);

}  // namespace format

/// The format's name of a dtype of plangrad: f32 -> F32.
std::string safetensors_dtype(DType dtype);

/// The values of a tensor of F64, F32, F16 or BF16, each rounded to the nearest float.
/// throws: Error if the tensor holds anything else
std::vector<float> to_floats(const SafetensorsEntry& entry);

}  // namespace plangrad::nn
