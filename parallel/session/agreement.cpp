// A CRC-32 of a manifest stands for the checkpoint: it covers the checksums of all tensors. The
// folder's lock is the system's (flock), so that of a run that was killed is free. A run that ends
// removes the file; where others do, a lock of checkpoint/ keeps other runs out. Chapter 05.
#include "parallel/session/agreement.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "autograd/version.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/pack.h"

namespace plangrad::parallel {

using nlohmann::json;
namespace fs = std::filesystem;

void check_agreement(Transport& transport, const json& run, const nn::OpenedCheckpoint* resumed,
                     double timeout) {
  json own = run;
  for (const char* path : {"--data", "--validation", "--vocab"})  // hosts may keep them elsewhere
    if (own.contains("flags")) own["flags"].erase(path);
  const nn::Manifest* from = resumed ? &resumed->manifest() : nullptr;
  const std::string opened =
      from ? text("that of update ", from->step, " with CRC-32 ", from->checksum) : "none";
  const json here{
      {"run", own}, {"build", autograd::build()}, {"host", host_name()}, {"checkpoint", opened}};
  const std::vector<std::string> all = all_gather_bytes(transport, here.dump(), timeout);
  const json first = json::parse(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) try {
      const json other = json::parse(all[rank]);
      const std::string who = text("rank ", rank, " (on ", other.value("host", ""), ')');
      const json difference = json::diff(first["run"], other["run"]);
      PG_CHECK(difference.empty(), "rank ", rank, " was started with another ",
               difference[0].at("path").get<std::string>(),
               " than rank 0: ", difference[0].value("value", json()).dump(),
               "; start all ranks with the same flags, data and weights");
      PG_CHECK(first["build"] == other["build"], who,
               " is another build than rank 0: ", other.value("build", ""), ", not ",
               first.value("build", ""), "; copy one build to all hosts, built with ",
               "-DPLANGRAD_NATIVE=OFF if their processors differ");
      PG_CHECK(first["checkpoint"] == other["checkpoint"], who, " resumes another checkpoint, ",
               other.value("checkpoint", ""), ", than rank 0, ", first.value("checkpoint", ""),
               "; give all ranks the same --resume DIR, which all hosts share, and start them ",
               "when no run saves there");
    } catch (const Error& difference) {
      throw SharedError(difference.what());
    }
}

std::uint32_t checksum_of(const Tensor& x, std::uint32_t before) {
  std::vector<std::byte> host(static_cast<std::size_t>(x.bytes()));
  x.backend().copy_to_host(x, host.data());
  return nn::crc32_of(host, before);
}

WeightsChecksums weights_checksums(Engine& engine) {
  WeightsChecksums found;
  for (auto& [stage, store] : engine.stores())
    if (store.shard().zero < 3) found[stage] = checksum_of(store.versions().at(store.newest()));
  return found;
}

void check_replicas(const std::vector<WeightsChecksums>& ranks, const std::string& when) {
  std::map<int, std::pair<std::size_t, std::uint32_t>> first;  // by stage: a rank, and what it has
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto& [stage, checksum] : ranks[rank]) {
      const auto& [other, expected] = first.try_emplace(stage, rank, checksum).first->second;
      if (checksum == expected) continue;
      throw WrongState(text("ranks ", other, " and ", rank, " have different weights of stage ",
                            stage, ' ', when, ": replicas must be equal, so the memory or the ",
                            "program of one of them is at fault; resume the last checkpoint, on ",
                            "other hosts if this happens again"));
    }
}

void check_first_weights(Engine& engine, int steps) {
  if (engine.transport().size() == 1) return;
  const std::string own = pack(weights_checksums(engine));
  std::vector<WeightsChecksums> ranks;
  for (std::string& one : all_gather_bytes(engine.transport(), own, engine.settings().timeout))
    ranks.push_back(unpack<WeightsChecksums>(std::move(one)));
  check_replicas(ranks, text("after update ", steps, ", with which this session begins"));
}

/// Makes a folder, and those above it, that is there after a power failure, too.
/// throws: Error if it can't be made or written
static void make_writable(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  PG_CHECK(!problem && ::access(folder.c_str(), W_OK) == 0, "can't write to the folder ",
           folder.string(), "; choose another with --out");
  for (fs::path at = fs::absolute(folder); at.has_relative_path(); at = at.parent_path()) try {
      nn::sync_to_disk(at);
    } catch (const Error&) {
      break;  // a folder that can't be read was not made here
    }
}

namespace {

constexpr const char* lock_name = "plangrad.lock";

/// Whether the path still names the open file: its owner may have removed it before we locked it.
bool is_named(int file, const fs::path& path) {
  struct stat open = {}, named = {};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

/// The first line of a lock: whose it is; empty if it can't be read.
std::string owner_of(const fs::path& lock) {
  const nn::Descriptor file(::open(lock.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::string bytes(200, '\0');
  const ssize_t count = ::pread(file.number, bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return bytes.substr(0, bytes.find('\n'));
}

/// Opens a file or folder in the run's folder, and locks it. Returns -1 for a folder that the disk
/// can't lock.
/// throws: Error if another process has it, or there can be none
int locked(const fs::path& path, int how) {
  const int file = ::open(path.c_str(), how | O_NOFOLLOW | O_CLOEXEC, 0666);
  PG_CHECK(file >= 0 || errno != ELOOP, path.string(), " is a link, which none follows: remove it");
  PG_CHECK(file >= 0, "can't open ", path.string(), ": ", nn::system_message());
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const bool is_held = errno == EWOULDBLOCK;
  const std::string why = nn::system_message(), holder = owner_of(path.parent_path() / lock_name);
  ::close(file);
  if (how & O_DIRECTORY && !is_held) return -1;
  PG_CHECK(!is_held, "another run writes to ", path.parent_path().string(), ": ",
           holder.empty() ? "a process" : holder, " holds ", path.string(),
           "; wait for it, or choose another folder with --out");
  throw Error(text("can't lock ", path.string(), ": ", why,
                   "; choose a folder on a disk that can, with --out"));
}

}  // namespace

bool is_abandoned(const fs::path& out) {
  const fs::path path = out / lock_name;
  const nn::Descriptor left(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return left.number >= 0 && ::flock(left.number, LOCK_EX | LOCK_NB) == 0 &&
         is_named(left.number, path);
}

FolderLock::FolderLock(const fs::path& out) : path_(out / lock_name) {
  const fs::path folder = out / "checkpoint";
  std::error_code ignored;
  PG_CHECK(!fs::is_symlink(folder, ignored), folder.string(), " is a link: another run may save ",
           "to what it names; remove the link, or name that run's folder with --out");
  made_ = !fs::exists(out, ignored);
  make_writable(folder);
  folder_.number = locked(folder, O_RDONLY | O_DIRECTORY);
  lock();
}

/// Locks the file, and writes into it whose it is.
void FolderLock::lock() {
  for (; !is_named(file_, path_); file_ = locked(path_, O_RDWR | O_CREAT))
    ::close(std::exchange(file_, -1));  // at first none is open
  owner_ = text("process ", ::getpid(), " on ", host_name());
  const std::string line = owner_ + '\n';
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, line.data(), line.size(), 0) < 0 ||
      ::fsync(file_) != 0)  // which is when other hosts see it
    owner_.clear();         // a full disk; the others then see a lock that is as empty
}

FolderLock::~FolderLock() {
  if (is_named(file_, path_)) ::unlink(path_.c_str());  // while it is locked
  ::close(file_);
  std::error_code ignored;
  const fs::path out = path_.parent_path(), folder = out / "checkpoint";
  int files = 0;  // a run's files need checkpoint/ beside them, or it would seem to be moved away
  for (fs::directory_iterator each(out, ignored), end; each != end; each.increment(ignored))
    ++files;
  if (made_ && files == 1 && ::rmdir(folder.c_str()) == 0) ::rmdir(out.c_str());
}

void FolderLock::check_here() {
  PG_CHECK(is_here(), path_.string(), " or its folder was removed or renamed");
}

bool FolderLock::is_here() try {
  const std::lock_guard lock_calls(mutex_);
  const fs::path folder = path_.parent_path() / "checkpoint";
  if (!is_named(file_, path_) && is_named(folder_.number, folder)) lock();
  return is_named(file_, path_);
} catch (const Error&) {  // another process has made the file, or it can't be made
  return false;
}

std::shared_ptr<FolderLock> claim_folder(Transport& transport, const fs::path& out, double timeout,
                                         std::shared_ptr<FolderLock> lock) {
  const std::string owner = broadcast_result(transport, timeout, [&] {
    if (!lock) lock = std::make_shared<FolderLock>(out);
    return lock->owner();
  });
  if (transport.size() == 1) return lock;
  const fs::path path = out / lock_name;
  std::error_code ignored;
  const json seen{{"found", fs::exists(path, ignored) && owner_of(path) == owner},
                  {"place", text(fs::absolute(out / "checkpoint").string(), " on ", host_name())}};
  const std::vector<std::string> all = all_gather_bytes(transport, seen.dump(), timeout);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (const json other = json::parse(all[rank]); other["found"] == false)
      throw SharedError(text("rank ", rank, " writes to ", other.value("place", ""),
                             ", which is not ", json::parse(all[0]).value("place", ""),
                             ", the folder of rank 0: no checkpoint could be read again; name a ",
                             "folder that all hosts share with --out"));
  return lock;
}

}  // namespace plangrad::parallel
