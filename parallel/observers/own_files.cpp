// A file of moderate size is compared by its bytes, as copies and restores keep times and sizes.
#include "parallel/observers/own_files.h"

#include <nlohmann/json.hpp>

namespace plangrad::parallel {

using autograd::Error;
using nlohmann::json;
namespace fs = std::filesystem;

json written_in(const fs::path& path, std::int64_t bytes) try {
  const nn::OpenFile file(path);
  if (bytes < 0) bytes = static_cast<std::int64_t>(file.size());
  std::vector<std::byte> part;
  std::uint32_t checksum = 0;
  for (std::int64_t at = 0; at < bytes; at += std::ssize(part)) {
    part.resize(static_cast<std::size_t>(std::min<std::int64_t>(1 << 20, bytes - at)));
    file.read(static_cast<std::uint64_t>(at), part);
    checksum = nn::crc32_of(part, checksum);
  }
  return {{"bytes", bytes}, {"checksum", nn::digits_of(checksum)}};
} catch (const Error&) {
  return nullptr;
}

bool begins_as(const fs::path& path, const json& written) try {
  return written_in(path, nn::whole_number(written.at("bytes"))).at("checksum") ==
         written.at("checksum");
} catch (const std::exception&) {  // `written` is of another program, or the file has fewer bytes
  return false;
}

fs::path name_aside(const fs::path& file) {
  std::string name = file.filename().string();
  if (const auto at = name.find("tfevents"); at != name.npos) name.erase(at, 2);
  const json written = written_in(file);
  fs::path aside;
  for (int number = 1; aside.empty() || (fs::exists(fs::symlink_status(aside)) &&
                                         (written.is_null() || written_in(aside) != written));
       ++number)
    aside = file.parent_path() / autograd::text(name, ".before-", number);
  return aside;
}

OwnFiles::OwnFiles(const fs::path& folder) {
  std::error_code none;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, none)) note(file.path());
}

/// A file's length and checksum, or the time at which it was written if it is large. Empty for a
/// folder, a link, or a path without anything.
std::string OwnFiles::state_of(const fs::path& file) try {
  constexpr std::uintmax_t largest = 64 << 20;  // bytes that are read in a moment
  if (!fs::is_regular_file(fs::symlink_status(file))) return "";
  if (fs::file_size(file) <= largest) return written_in(file).dump();
  return autograd::text(fs::file_size(file), ' ',
                        fs::last_write_time(file).time_since_epoch().count());
} catch (const std::exception&) {  // it is gone, or may not be read
  return "";
}

bool OwnFiles::has(const fs::path& file) const {
  const auto own = own_.find(file);
  return own != own_.end() && own->second == state_of(file) && !own->second.empty();
}

std::string OwnFiles::make_way(const fs::path& file) const {
  if (!fs::exists(fs::symlink_status(file)) || has(file)) return "";
  const fs::path aside = name_aside(file);
  std::error_code problem;
  fs::rename(file, aside, problem);
  PG_CHECK(!problem, "can't rename ", file.string(), " to ", aside.string(), ": ",
           problem.message());
  return autograd::text("; ", file.string(), " stays in ", aside.string());
}

}  // namespace plangrad::parallel
