// The system locks a folder (flock), so that of a process that was killed is free. Chapter 15.
#include "examples/programs/memory_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iostream>

#include "examples/programs/run_copy.h"
#include "nn/checkpoint/checkpoint.h"

namespace plangrad::examples {

namespace fs = std::filesystem;
using autograd::text;

namespace {

constexpr const char* prefix = "plangrad-elastic-";

/// Makes a folder with a name that is not looked for: it is not locked yet.
std::string new_folder(const fs::path& parent) {
  std::string name = (parent / ".").string() + prefix + "XXXXXX";
  PG_CHECK(::mkdtemp(name.data()), "can't make a folder like ", name, ": ", nn::system_message(),
           "; name a folder in memory with --memory");
  return name;
}

int opened_folder(const fs::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

}  // namespace

MemoryFolder::MemoryFolder(const fs::path& parent)
    : path_(new_folder(parent)), lock_(opened_folder(path_)) {
  ::flock(lock_.number, LOCK_EX);
  const fs::path hidden = path_;
  path_.replace_filename(path_.filename().string().substr(1));
  fs::rename(hidden, path_);
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  if (on_disk_ || nn::manifests_of(path_ / "checkpoint").empty()) fs::remove_all(path_, ignored);
}

void name_left_over(const fs::path& parent, const fs::path& resumed) {
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, problem)) {
    struct stat found = {};
    const std::string path = entry.path().string();
    const nn::Descriptor folder(
        entry.path().filename().string().starts_with(prefix) ? opened_folder(path) : -1);
    const bool is_left = folder.number >= 0 && ::fstat(folder.number, &found) == 0 &&
                         found.st_uid == ::getuid() && path != resumed &&
                         ::flock(folder.number, LOCK_EX | LOCK_NB) == 0 &&
                         fs::exists(path, problem);  // not removed meanwhile
    if (!is_left) continue;
    const int saved = saved_in(path);
    std::cerr << text("elastic: ", path,
                      " is left of a run that was killed or could not be copied; ");
    if (saved > 0)
      std::cerr << text("continue it after update ", saved, " with --resume ", path,
                        " and an --out; later ");
    std::cerr << text("remove it with rm -r ", path, '\n');
  }
}

}  // namespace plangrad::examples
