// A file is written beside its target and renamed, so a write that fails leaves the earlier one.
// zlib computes checksums. Chapter 02.
#include "nn/checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cctype>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <ranges>

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
  constexpr int as_new = O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
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
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // maybe a pipe
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

static int open_regular(const std::filesystem::path& path) {
  check_regular(path);
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

OpenFile::OpenFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_regular(path_)) {
  struct stat status = {};
  if (file_.number < 0 || ::fstat(file_.number, &status) != 0) {
    const std::string why = system_message();
    check_regular(path_);  // a run that saves may just have removed it
    throw Unreadable(text("can't open ", path_.string(), ": ", why));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void OpenFile::read(std::uint64_t at, std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t got = ::pread(file_.number, target.data(), target.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Unreadable(text("can't read ", path_.string(), ": ", system_message()));
    PG_CHECK(got > 0, path_.string(), " is cut short: another program made it shorter, to ", at,
             " of ", size_, " bytes, while it was read");
    at += static_cast<std::uint64_t>(got);
    target = target.subspan(static_cast<std::size_t>(got));
  }
}

std::string foreign_kind(std::string_view start) {
  // Two bytes would not do: token ids, and the length with which safetensors begin, may have them.
  static constexpr std::pair<std::string_view, std::string_view> kinds[] = {
      {"<!doctype|<html|<head|<body|<title|<meta|<script|<center|<?xml|<error>|{\"error\":\"|"
       "{\"error\":{|{\"message\":\"|{\"detail\":\"|404: not found|entry not found|"
       "access to model |access to dataset |invalid username or password",
       "is a web page or a server's error, not the file that its name promises: download it again, "
       "from the link to the file itself, logged in where the site asks for it"},
      {"version https://git-lfs",
       "is a Git LFS pointer, not the file itself: run \"git lfs install\" and \"git lfs pull\" in "
       "its folder, or download it again"},
      {"pk\3\4",
       "is a zip archive: unpack it; if torch.save wrote it, write it anew with save_pretrained"},
      {"\x80\2\x8a\x0a|\x80\2}q",
       "is a file of torch.save: load it in Python, and write it with save_pretrained of "
       "transformers, or with safetensors.torch.save_file"},
      {"\x80\4\x95|\x80\5\x95",
       "is a pickle: load it in Python, and write what it holds in another way"},
      {"gguf", "is a GGUF file of llama.cpp: use the model that it was converted from"},
      {"lmgg", "is a GGML file of llama.cpp: use the model that it was converted from"},
      {"litpkds", "is a PackedDataset of Lit-GPT: write its ids alone, as uint16"},
      {"\x1f\x8b\x08", "is packed by gzip: unpack it with gunzip"},
      {"\x28\xb5\x2f\xfd", "is packed by zstd: unpack it with unzstd"},
      {"\xfd\x37zxz", "is packed by xz: unpack it with unxz"},
      {"bzh91ay&sy", "is packed by bzip2: unpack it with bunzip2"},
      {"par1", "is a table of Parquet: write its column of text to a file, with pandas"},
      {"arrow1", "is a table of Arrow: write its column of text to a file, with pandas"},
      {"sqlite format 3", "is a database of SQLite: write its column of text to a file"},
      {"\x89hdf\r\n", "is a file of HDF5: read it in Python, and write what it holds"},
      {"%pdf-", "is a PDF: write its text to a file, as pdftotext does"},
      {"\x89png\r\n", "is a picture (PNG): images are read as IDX files"},
      {"\x7f\x65lf", "is a program or library of Linux (ELF), not data"},
      {"mmididx", "is an index of Megatron: the token ids are in the .bin file beside it"},
      {"\x93numpy", "is an array of numpy.save: write its bytes alone, with tofile"}};
  if (start.size() > 257 && start.substr(257, 5) == "ustar") return "is a tar archive: unpack it";
  constexpr std::string_view blanks = " \t\r\n\xef\xbb\xbf";  // and the mark of UTF-8
  while (start.starts_with("<!--") || (!start.empty() && blanks.find(start[0]) != blanks.npos))
    start.remove_prefix(start[0] == '<' ? std::min(start.find("-->"), start.size() - 3) + 3 : 1);
  std::string lower(start.substr(0, 64));
  if (lower.starts_with('{')) std::erase_if(lower, [](unsigned char c) { return std::isspace(c); });
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [marks, what] : kinds)
    for (const auto mark : std::views::split(marks, '|'))
      if (lower.starts_with(std::string_view(mark.begin(), mark.end()))) return std::string(what);
  return "";
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit) {
  const OpenFile file(path);
  PG_CHECK(file.size() > 0, path.string(), " is empty: give a file with content");
  PG_CHECK(file.size() <= limit, path.string(), " has ", file.size(),
           " bytes, and files of its kind have at most ", limit, ": is this the right file?");
  std::string bytes(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  PG_CHECK(!bytes.starts_with("version https://git-lfs"), path.string(), ' ', foreign_kind(bytes));
  return bytes;
}

nlohmann::json parse_json(std::string_view text) {
  constexpr int deepest = 100;                 // what we write has fewer than ten levels
  constexpr std::int64_t largest = 4'000'000;  // values; large tokenizers have a few 100,000
  int depth = 0;
  std::int64_t values = 1;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    values += c == '[' || c == '{' || c == ',';
    PG_CHECK(depth <= deepest, "its JSON is nested more than ", deepest, " deep");
    PG_CHECK(values <= largest, "its JSON has more than ", largest, " values");
  }
  return nlohmann::json::parse(text);
}

nlohmann::json read_json(const std::filesystem::path& path, std::uint64_t limit) {
  const std::string bytes = read_file(path, limit), kind = foreign_kind(bytes);
  PG_CHECK(kind.empty(), path.string(), ' ', kind);
  try {
    return parse_json(bytes);
  } catch (const nlohmann::json::exception&) {
    const bool has_nan = bytes.find("NaN") != bytes.npos || bytes.find("Infinity") != bytes.npos;
    throw Error(text(path.string(), ": this is no JSON",
                     has_nan ? ", which has no NaN and no Infinity, as Python writes them" : ""));
  } catch (const Error& error) {
    throw Error(text(path.string(), ": ", error.what()));
  }
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
  const std::filesystem::path unfinished = path.string() + partial;
  try {
    write_all(create_file(unfinished), unfinished, std::as_bytes(std::span(bytes)));
    std::filesystem::rename(unfinished, path);
  } catch (const std::exception&) {
    ::unlink(unfinished.c_str());
    throw Unwritable("can't write " + path.string() +
                     ": check that its folder exists and is writable, and that the disk has space");
  }
}

}  // namespace plangrad::nn
