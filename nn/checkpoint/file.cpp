// A file is written beside its target and renamed, so a write that fails leaves the earlier one.
// zlib computes checksums. Chapter 02.
#include "nn/checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace plangrad::nn {

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
  if (bytes.empty()) return before;  // zlib takes a null pointer for a reset
  const auto* start = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<std::uint32_t>(::crc32_z(before, start, bytes.size()));
}

std::string digits_of(std::uint32_t checksum) { return fmt::format("{:08x}", checksum); }

std::string system_message() { return std::generic_category().message(errno); }

Descriptor::~Descriptor() {
  if (number >= 0) ::close(number);
}

Descriptor create_file(const std::filesystem::path& path) {
  ::unlink(path.c_str());
  constexpr int as_new = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int number = ::open(path.c_str(), as_new, 0666);
  PG_CHECK(number >= 0, path.string(), ": can't be created: ", system_message());
  return Descriptor(number);
}

void write_all(const Descriptor& file, const std::filesystem::path& path,
               std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    PG_CHECK(written >= 0, path.string(), ": can't be written: ", system_message());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void sync_to_disk(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  PG_CHECK(file.number >= 0 && ::fsync(file.number) == 0, path.string(),
           ": can't be written to disk: ", system_message());
}

void check_regular(const std::filesystem::path& path) {
  std::error_code ignored;
  PG_CHECK(std::filesystem::exists(path, ignored), "there is no file ", path.string(),
           ": check the path, or create the file first");
  PG_CHECK(!std::filesystem::is_directory(path, ignored), path.string(),
           " is a folder: name a file in it");
  PG_CHECK(std::filesystem::is_regular_file(path, ignored), path.string(),
           " is a pipe or a device: save what it holds to a file, and name that");
}

std::string read_file(const std::filesystem::path& path) {
  check_regular(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    check_regular(path);  // a run that saves may just have removed it
    throw Unreadable(text("can't open ", path.string(), ": check its permissions"));
  }
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) throw Unreadable(text("can't read all of ", path.string()));
  PG_CHECK(!bytes.empty(), path.string(), " is empty: give a file with content");
  return bytes;
}

nlohmann::json parse_json(std::string_view text) {
  constexpr int deepest = 100;  // what we write has fewer than ten levels
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    PG_CHECK(depth <= deepest, "its JSON is nested more than ", deepest, " deep");
  }
  return nlohmann::json::parse(text);
}

std::int64_t whole_number(const nlohmann::json& value) {
  PG_CHECK(value.is_number_integer(), "expected a whole number, got ",
           value.is_number() ? value.dump() : value.type_name());
  return value.get<std::int64_t>();
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  PG_CHECK(!problem, "can't create the folder ", folder.string(), ": ", problem.message(),
           "; name another one");
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::path partial = path;
  partial += ".partial";
  try {
    write_all(create_file(partial), partial, std::as_bytes(std::span(bytes)));
    std::filesystem::rename(partial, path);
  } catch (const std::exception&) {
    ::unlink(partial.c_str());
    throw Error("can't write " + path.string() +
                ": check that its folder exists and is writable, and that the disk has space");
  }
}

}  // namespace plangrad::nn
