// NCCL's communicators on the emulated machine, and the calls that meet in them. A call runs as
// soon as it is the first operation in the streams of all its ranks. Not here: streams (stream.h).
// NCCL user guide, communicators and group calls.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/emulator/nccl.h"
#include "cuda/emulator/stream.h"

namespace plangrad::cuda::emulator {

enum class Kind { all_reduce, reduce, reduce_scatter, broadcast, all_gather, send, receive };

/// One rank's part of a collective or message.
struct Call {
  Kind kind = Kind::all_reduce;
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int peer = 0;  ///< the root, or the other rank of a message
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

/// Calls that will run together; ranks that have not called yet have no communicator there.
struct Gathering {
  std::shared_ptr<std::vector<Call>> calls;  ///< calls of all ranks; a message's sender comes first
  std::shared_ptr<Rendezvous> meeting;
  std::size_t joined = 0;
};

/// The state that the ranks of a communicator share. Ranks are threads, each with a device of this
/// machine; or, as a machine with one device is all that a rank has, processes of one host.
struct Clique {
  std::filesystem::path folder{};  ///< in which processes meet; empty: all ranks are threads
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> devices;  ///< the device of each rank; -1: it has not joined
  int joined = 0;
  bool aborted = false;  ///< whether a rank has aborted it, and the others are told
  /// Gatherings by the ranks (from, to) of a message, or (-1,-1) for collectives, and by number.
  using Key = std::tuple<int, int, std::uint64_t>;
  std::map<Key, Gathering> gatherings{};
};

int bytes_of(ncclDataType_t type);
const char* name_of(Kind kind);
/// Bytes that a rank's call reads and writes.
std::size_t bytes_read(const Call& call);
std::size_t bytes_written(const Call& call);
/// Whether two ranks' calls can be parts of one. If not, reports that.
bool check_match(const Call& a, const Call& b);

/// Carries the calls of all ranks out. Buffers may be each rank's own ("in place").
void run_together(const std::vector<Call>& calls);

/// Waits for the other ranks of a communicator.
ncclResult_t wait_for_ranks(ncclComm_t comm);
/// Whether this thread has begun a group; then the communicator is waited for at its end.
bool join_in_group(ncclComm_t comm);
/// Queues the last call, if the communicator doesn't block.
void queue_waiting(ncclComm_t comm);

// Ranks that are processes (nccl_processes.cpp).

/// Joins the processes that have the same id.
std::shared_ptr<Clique> join_processes(const std::string& id, int ranks, int rank);
/// Looks how many processes have joined, and whether one has aborted.
void look_around(Clique& clique);
/// Leaves the other processes; the last one removes what they share, and `abort` does so at once.
void leave_processes(const Clique& clique, int rank, bool abort);
/// The meeting of a call with other processes.
std::shared_ptr<Rendezvous> meet_processes(const std::string& name, const Clique::Key& key,
                                           const Call& own);

}  // namespace plangrad::cuda::emulator

struct ncclComm {
  std::shared_ptr<plangrad::cuda::emulator::Clique> clique;
  int rank = 0;
  int device = 0;
  std::map<std::tuple<int, int>, std::uint64_t> calls{};  ///< numbers, by the key of a gathering
  plangrad::cuda::emulator::Position last{};  ///< the last operation, after which the next runs
  bool blocking = true;
  std::vector<plangrad::cuda::emulator::Call> waiting{};  ///< the last ones, if it doesn't block
  ncclResult_t error = ncclSuccess;
};
