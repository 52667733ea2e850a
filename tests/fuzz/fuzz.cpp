// Files in a folder of the process's own.
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/temporary_folder.h"

namespace plangrad::fuzz {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view mark = "\n%%\n";

}  // namespace

void must(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fault: %s\n", what);
  std::abort();
}

std::string joined(const std::vector<std::string>& files) {
  std::string all;
  for (const std::string& file : files) all += (&file == &files.front() ? "" : mark), all += file;
  return all;
}

std::vector<std::string> parts_of(const std::string& input, std::size_t count) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (parts.size() + 1 < count && at <= input.size()) {
    const std::size_t end = input.find(mark, at);
    if (end == input.npos) break;
    parts.push_back(input.substr(at, end - at));
    at = end + mark.size();
  }
  parts.push_back(input.substr(at));
  parts.resize(count);
  return parts;
}

const fs::path& folder() {
  static const tests::TemporaryFolder made;
  return made.path;
}

fs::path write(const std::string& name, std::string_view bytes) {
  static std::map<std::string, std::string> written;
  const fs::path path = folder() / name;
  const auto [last, is_first] = written.try_emplace(name);
  if (!is_first && last->second == bytes) return path;
  last->second = bytes;
  if (bytes.empty()) {
    ::unlink(path.c_str());
    return path;
  }
  constexpr int as_new = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int file = ::open(path.c_str(), as_new, 0600);
  if (file < 0) {  // the first one in its folder
    fs::create_directories(path.parent_path());
    file = ::open(path.c_str(), as_new, 0600);
  }
  must(::write(file, bytes.data(), bytes.size()) == std::ssize(bytes), "can't write a file");
  ::close(file);
  return path;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace plangrad::fuzz
