// The lock is the system's (flock), so that of a run that was killed is free. A run that ends
// removes the file. Chapter 05.
#include "parallel/session/folder_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "parallel/session/machine.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {

using autograd::text;
using nlohmann::json;
namespace fs = std::filesystem;

void make_writable(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  PG_CHECK(!problem && ::access(folder.c_str(), W_OK) == 0, "can't write to the folder ",
           folder.string(), "; choose another with --out");
  for (fs::path at = fs::absolute(folder); at.has_relative_path(); at = at.parent_path()) try {
      nn::sync_to_disk(at);
    } catch (const autograd::Error&) {
      break;  // a folder that can't be read was not made here
    }
}

namespace {

constexpr const char* lock_name = "plangrad.lock";

/// The path of an open file or folder as it is called now; empty if it was removed.
fs::path present_name(int file) {
  std::error_code problem;
  const fs::path now = fs::read_symlink(text("/proc/self/fd/", file), problem);
  return fs::exists(now, problem) ? now : fs::path();
}

/// Whether the path still names the open file: its owner may have removed it before we locked it.
bool is_named(int file, const fs::path& path) {
  struct stat open = {}, named = {};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

std::string content_of(int file) {
  std::string bytes(200, '\0');
  const ssize_t count = ::pread(file, bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return bytes.substr(0, bytes.find('\n'));
}

}  // namespace

bool is_abandoned(const fs::path& out) {
  const fs::path path = out / lock_name;
  const nn::Descriptor left(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return left.number >= 0 && ::flock(left.number, LOCK_EX | LOCK_NB) == 0 &&
         is_named(left.number, path);
}

class FolderClaim::Lock {
 public:
  explicit Lock(fs::path path) : path_(std::move(path)) {
    do open();
    while (!is_named(file_, path_));
    const std::string own = text("process ", ::getpid(), " on ", cores_here().host, '\n');
    if (::ftruncate(file_, 0) == 0) written_ = ::pwrite(file_, own.data(), own.size(), 0);
  }
  ~Lock() {
    if (const fs::path folder = place(); !folder.empty())
      ::unlink((folder / path_.filename()).c_str());  // while it is locked
    ::close(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  bool is_here() const { return is_named(file_, path_); }
  fs::path folder() const { return path_.parent_path(); }
  /// The folder's present name; empty if the file was removed.
  fs::path place() const {
    if (is_here()) return folder();
    const fs::path now = present_name(file_);
    return is_named(file_, now) ? now.parent_path() : fs::path();
  }

 private:
  void open() {
    if (file_ >= 0) ::close(file_);
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    PG_CHECK(file_ >= 0 || errno != ELOOP, path_.string(),
             " is a link, which none follows: remove it");
    PG_CHECK(file_ >= 0, "can't open ", path_.string(), ": ", nn::system_message());
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    const bool is_held = errno == EWOULDBLOCK;
    const std::string why = nn::system_message(), holder = content_of(file_);
    ::close(file_);
    PG_CHECK(!is_held, "another run writes to ", path_.parent_path().string(), ": ",
             holder.empty() ? "a process" : holder, " holds ", path_.string(),
             "; wait for it, or choose another folder with --out");
    throw autograd::Error(text("can't lock ", path_.string(), ": ", why,
                               "; choose a folder on a disk that can, with --out"));
  }

  fs::path path_;
  int file_ = -1;  // the system frees the lock when the process ends, in whatever way
  ssize_t written_ = 0;
};

FolderClaim::FolderClaim(Transport& transport, const fs::path& out, double timeout) {
  const fs::path folder = out / "checkpoint";
  const std::string host = cores_here().host;
  json probe;
  if (transport.rank() == 0) {
    PG_CHECK(!fs::is_symlink(folder), folder.string(), " is a link: another run may save to what ",
             "it names; remove the link, or name that run's folder with --out");
    make_writable(folder);
    lock_ = std::make_unique<Lock>(out / lock_name);
    const std::string name = text("probe-", host, '-', ::getpid());
    probe = {{"name", name}, {"folder", fs::absolute(folder).string()}, {"host", host}};
    if (transport.size() > 1) nn::write_file(folder / name, host);
  }
  if (transport.size() == 1) return;
  probe = json::parse(broadcast_bytes(transport, probe.dump(), timeout));
  const fs::path file = folder / probe["name"].get<std::string>();
  std::error_code ignored;
  const json seen{{"found", fs::exists(file, ignored)},
                  {"folder", fs::absolute(folder).string()},
                  {"host", host}};
  const std::vector<std::string> all = gather_bytes(transport, seen.dump(), timeout);
  if (transport.rank() == 0)
    fs::remove(file, ignored);
  else
    folder_ = std::make_unique<nn::Descriptor>(::open(out.c_str(), O_PATH | O_CLOEXEC));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const json other = json::parse(all[rank]);
    auto place = [](const json& of) {
      return text(of["folder"].get<std::string>(), " on ", of["host"].get<std::string>());
    };
    PG_CHECK(other["found"] == true, "rank ", rank, " writes to ", place(other), ", which is not ",
             place(probe), ", the folder of rank 0: no checkpoint could be read again; name a ",
             "folder that all hosts share with --out");
  }
}

FolderClaim::~FolderClaim() = default;

fs::path FolderClaim::place() const {
  if (lock_) return lock_->place();
  return folder_ ? present_name(folder_->number) : fs::path();
}

}  // namespace plangrad::parallel
