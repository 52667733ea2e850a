// Reads and writes whole files, with errors that name the file; and checksums of bytes: the CRC-32
// of PNG and gzip, which finds random damage, such as a flipped bit or a lost page, but no forgery.
// Files are read, never mapped: one that shrinks while it is read is an error, not a signal.
// Not here: formats (readers of .bin, IDX and vocabularies build on this), and which bytes have a
// checksum (safetensors.h, checkpoint.h). Chapter 02.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "autograd/error.h"

namespace plangrad::nn {

/// Returns the CRC-32 of some bytes, which follow others whose CRC-32 is `before`. It equals
/// zlib.crc32(bytes, before) of Python.
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// Returns a CRC-32 as eight hexadecimal digits.
std::string digits_of(std::uint32_t checksum);

inline std::string checksum_of(std::span<const std::byte> bytes) {
  return digits_of(crc32_of(bytes));
}
inline std::string checksum_of(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

using namespace autograd;

/// A file is there, but can't be opened or read now: its bytes may be good.
struct Unreadable : Error {
  using Error::Error;
};

/// A file can't be written: its disk may be full, and later have room.
struct Unwritable : Error {
  using Error::Error;
};

/// Every file that is read goes through this check: to open a pipe or a device may wait for ever,
/// and to read it may never end.
/// throws: Error if the file is missing, or is a folder, a pipe or a device
void check_regular(const std::filesystem::path& path);

/// Says what a file's first bytes are if they are none of a model's files, as the end of "FILE
/// ...", with the remedy: a Git LFS pointer, a server's error, an archive. Empty for all else.
std::string foreign_kind(std::string_view start);

/// The most bytes of files that others wrote, by kind: several times what real ones have. Data that
/// a run trains on, and its metrics, may have any size.
namespace most {
inline constexpr std::uint64_t config = 1 << 20, json = 64 << 20, plan = 32 << 20,
                               data = std::numeric_limits<std::int64_t>::max();
}  // namespace most

/// Returns all bytes of a file.
/// throws: Error if check_regular() does, or if the file is empty, has more than `limit` bytes, or
///         is a Git LFS pointer; Unreadable
std::string read_file(const std::filesystem::path& path, std::uint64_t limit = most::json);

/// Parses JSON that others wrote. JSON that is nested a few thousand deep would overflow the stack
/// of whoever copies it, and 64 MB of empty lists would take gigabytes.
/// throws: nlohmann::json::exception unless it is JSON in UTF-8; Error if it is nested too deep, or
///         has more than four million values
nlohmann::json parse_json(std::string_view text);

/// Reads a file of JSON that others wrote.
/// throws: Error as read_file() does; or that names the file, if it is no JSON or parse_json() does
nlohmann::json read_json(const std::filesystem::path& path, std::uint64_t limit = most::json);

/// The whole number that JSON holds. To convert its 1e300 to an integer is undefined.
/// throws: Error if it holds anything else
std::int64_t whole_number(const nlohmann::json& value);

/// Creates a folder and its parent folders, unless they exist.
/// throws: Error if the system can't create them
void make_folder(const std::filesystem::path& folder);

/// The system's message for its last error.
std::string system_message();

/// An open file that closes itself.
struct Descriptor {
  int number;
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor();
};

/// A file that is open for reading. It stays readable when another file takes its name.
class OpenFile {
 public:
  /// throws: Error if check_regular() does; Unreadable
  explicit OpenFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// Bytes of the file when it was opened.
  std::uint64_t size() const { return size_; }
  /// Fills `target` with the bytes from `at` on.
  /// throws: Error if the file has become shorter; Unreadable
  void read(std::uint64_t at, std::span<std::byte> target) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

/// Ends the name of a file that is not complete yet. A file with this end is ours, and may be
/// replaced: no other program gives one.
inline constexpr const char* partial = ".plangrad-partial";

/// Opens a new file to append to it, which leaves no hole where others make it shorter. A file or
/// link of this name is removed first: no link is followed.
/// throws: Error if the file can't be created
Descriptor create_file(const std::filesystem::path& path);

/// Writes all bytes to an open file; `path` is its name for errors.
void write_all(const Descriptor& file, const std::filesystem::path& path,
               std::span<const std::byte> bytes);

/// Forces a file, or the names in a folder, to disk, so that they survive a power failure.
/// throws: Error if the system can't
void sync_to_disk(const std::filesystem::path& path);

/// Replaces a file as a whole: the old file stays intact until the new one is complete.
/// throws: Unwritable if the folder is missing or can't be written
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace plangrad::nn
