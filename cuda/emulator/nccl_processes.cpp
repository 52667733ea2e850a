// Communicators whose ranks are processes of one host. Each has an emulated machine of its own, so
// what a call reads is passed on by files in a folder in memory, and each rank computes its own
// result from all of it. A file is a link for one reader, who removes it.
// Not here: calls of threads, which read each other's memory (nccl_calls.cpp); races between
// processes, and waiting for their devices, which nobody sees.
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "autograd/error.h"
#include "cuda/emulator/communicator.h"
#include "cuda/emulator/emulator.h"

namespace plangrad::cuda::emulator {

namespace {

namespace fs = std::filesystem;
using plangrad::autograd::text;

std::string joined_as(int rank) { return text("rank ", rank, ' '); }

/// One rank's part of what ranks do together, as this process knows it.
struct Part {
  ncclComm comm;
  Call call{};           ///< without a communicator until the rank has told of it
  std::string words{};   ///< what it told: its call, and the values that this reads
  std::string result{};  ///< what the call writes in its own process
};

class Together {
 public:
  Together(const Clique::Key& key, const Call& own) : key_(key), own_(own) {
    const auto [from, to, number] = key;
    const auto ranks = int(own.comm->clique->devices.size());
    for (int i = 0; i < (from < 0 ? ranks : 2); ++i) {
      const int rank = from < 0 ? i : i == 0 ? from : to;
      parts_.push_back({{own.comm->clique, rank, 0}, rank == own.comm->rank ? own : Call()});
    }
  }

  /// Whether all parts are here. The first time, as its turn has come, this rank tells of its own.
  bool is_complete() {
    if (!std::exchange(told_, true)) tell();
    bool all = true;
    for (Part& part : parts_) all &= part.call.comm || hear(part);
    return all;
  }

  void run() {
    std::vector<Call> calls;
    for (const Part& part : parts_) calls.push_back(part.call);
    run_together(calls);
  }

 private:
  fs::path file(int from, int to) const {
    const auto [sender, receiver, number] = key_;
    return own_.comm->clique->folder / text(sender, ' ', receiver, ' ', number, ' ', from, ' ', to);
  }

  /// Writes the call for the other ranks. Does nothing after an abort, which removes the folder.
  void tell() {
    const int rank = own_.comm->rank;
    const fs::path whole = file(rank, rank);
    std::ofstream(whole, std::ios::binary)
        .write(reinterpret_cast<const char*>(&own_), sizeof own_)
        .write(static_cast<const char*>(own_.source), std::streamsize(bytes_read(own_)));
    std::error_code none;
    for (const Part& part : parts_)
      if (part.comm.rank != rank) fs::create_hard_link(whole, file(rank, part.comm.rank), none);
    fs::remove(whole, none);
  }

  bool hear(Part& part) {
    const fs::path link = file(part.comm.rank, own_.comm->rank);
    std::ifstream in(link, std::ios::binary);
    if (!in) return false;
    part.words.assign(std::istreambuf_iterator<char>(in), {});
    std::error_code none;
    fs::remove(link, none);
    Call call;
    std::memcpy(static_cast<void*>(&call), part.words.data(), sizeof call);
    call.comm = &part.comm;
    call.source = part.words.data() + sizeof call;
    part.result.resize(bytes_written(call));
    call.target = part.result.data();
    if (check_match(call, own_)) part.call = call;
    return part.call.comm != nullptr;
  }

  const Clique::Key key_;
  const Call own_;
  std::vector<Part> parts_;  // a message's sender comes first
  bool told_ = false;
};

}  // namespace

std::shared_ptr<Clique> join_processes(const std::string& id, int ranks, int rank) {
  auto clique = std::make_shared<Clique>();
  clique->folder = fs::path("/dev/shm") / id;
  clique->devices.assign(ranks, 0);  // each rank has number 0 of its machine
  std::error_code none;
  fs::create_directory(clique->folder, none);
  std::ofstream(clique->folder / text(joined_as(rank), getpid())) << std::flush;
  return clique;
}

void look_around(Clique& clique) {
  if (clique.folder.empty()) return;
  const auto ranks = int(clique.devices.size());
  std::error_code none;
  std::string names;
  for (const auto& file : fs::directory_iterator(clique.folder, none))
    names += file.path().filename().string() + '\n';
  for (int rank = clique.joined; rank < ranks && names.find(joined_as(rank)) != names.npos; ++rank)
    ++clique.joined;
  clique.aborted = clique.aborted || !fs::exists(clique.folder, none);
}

/// A rank that was killed never leaves.
void leave_processes(const Clique& clique, int rank, bool abort) {
  if (clique.folder.empty()) return;
  std::error_code none;
  fs::remove(clique.folder / text(joined_as(rank), getpid()), none);
  bool is_last = true;
  for (const auto& file : fs::directory_iterator(clique.folder, none)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with("rank ")) is_last &= kill(std::stoi(name.substr(name.rfind(' '))), 0) != 0;
  }
  if (abort || is_last) fs::remove_all(clique.folder, none);
}

std::shared_ptr<Rendezvous> meet_processes(const std::string& name, const Clique::Key& key,
                                           const Call& own) {
  const auto together = std::make_shared<Together>(key, own);
  Rendezvous meeting{name, own.comm->clique.get(), 1, [together] { together->run(); }};
  meeting.outside = [together] { return together->is_complete(); };
  return std::make_shared<Rendezvous>(std::move(meeting));
}

}  // namespace plangrad::cuda::emulator
