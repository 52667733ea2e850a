// Calls of NCCL: gathered in groups, checked against the other ranks', queued in their streams.
// Not here: their results (nccl_communicator.cpp).
// NCCL user guide, group calls and collective communication functions.
#include <algorithm>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/communicator.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/runtime.h"

using namespace plangrad::cuda::emulator;
using plangrad::autograd::text;

namespace {

struct Group {
  int depth = 0;
  std::vector<ncclComm_t> joining;
  std::vector<Call> calls;
  ncclResult_t result = ncclSuccess;  ///< the first that is no success
};
thread_local Group group;

bool is_message(Kind kind) { return kind == Kind::send || kind == Kind::receive; }
bool has_root(Kind kind) { return kind == Kind::reduce || kind == Kind::broadcast; }
bool adds_up(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

std::string words_of(const Call& call) {
  std::string result = text("rank ", call.comm->rank, " ", name_of(call.kind), " of ", call.count,
                            " elements of type ", call.type);
  if (has_root(call.kind)) result += text(", root ", call.peer);
  return result;
}

/// Adds the call to those it runs with. Null, and a report, if it does not fit them.
std::shared_ptr<Rendezvous> gather(const Call& call) {
  Clique& clique = *call.comm->clique;
  bool message = is_message(call.kind), sends = call.kind == Kind::send;
  int rank = call.comm->rank, peer = call.peer;
  auto [from, to] = !message ? std::tuple(-1, -1)
                    : sends  ? std::tuple(rank, peer)
                             : std::tuple(peer, rank);
  // A rank that sends to itself has two calls for a message, so they are counted apart.
  const Clique::Key key{from, to, call.comm->calls[{sends, message ? peer : -1}]++};
  std::string name = message ? text("message from rank ", from, " to ", to) : name_of(call.kind);
  if (!clique.folder.empty()) return meet_processes(name, key, call);

  std::lock_guard lock(clique.mutex);
  auto entry = clique.gatherings.try_emplace(key).first;
  Gathering& all = entry->second;
  if (!all.meeting) {
    all.calls = std::make_shared<std::vector<Call>>(message ? 2 : clique.devices.size());
    all.meeting = std::make_shared<Rendezvous>(Rendezvous{
        name, &clique, all.calls->size(), [calls = all.calls] { run_together(*calls); }});
  }
  for (const Call& other : *all.calls)
    if (other.comm && !check_match(other, call)) return nullptr;
  (*all.calls)[message ? !sends : rank] = call;
  std::shared_ptr<Rendezvous> meeting = all.meeting;
  if (++all.joined == all.calls->size()) clique.gatherings.erase(entry);
  return meeting;
}

/// Whether a buffer is memory of the device.
bool is_memory(const void* start, std::size_t bytes, int device) {
  std::optional<Allocation> found = find_allocation(start);
  return bytes == 0 ||
         (found && found->device == device &&
          static_cast<const std::byte*>(start) + bytes <= found->start + found->bytes);
}

/// Whether a call that reads and writes the same memory does so in place: where its result belongs.
bool is_in_place(const Call& call, std::size_t read, std::size_t written, std::size_t part) {
  const auto* source = static_cast<const std::byte*>(call.source);
  const auto* target = static_cast<const std::byte*>(call.target);
  if (source + read <= target || target + written <= source) return true;
  const std::size_t own = part * std::size_t(call.comm->rank);
  if (call.kind == Kind::reduce_scatter) return target == source + own;
  if (call.kind == Kind::all_gather) return source == target + own;
  return source == target;
}

std::shared_ptr<Stream> stream_of(const Call& call) {
  return call.stream ? find_stream(call.stream) : default_stream(call.comm->device);
}

ncclResult_t check(const Call& call) {
  if (!call.comm) return ncclInvalidArgument;
  std::size_t ranks = call.comm->clique->devices.size();
  std::size_t read = bytes_read(call), written = bytes_written(call);
  int device = call.comm->device;
  std::shared_ptr<Stream> stream = stream_of(call);
  if ((adds_up(call.kind) && call.type == ncclUint8) || call.peer < 0 || call.peer >= int(ranks) ||
      !stream || stream->device != device || spoils_recording(stream) ||
      !is_memory(call.source, read, device) || !is_memory(call.target, written, device))
    return ncclInvalidArgument;
  if (!is_in_place(call, read, written, call.count * bytes_of(call.type))) {
    report(text("rank ", call.comm->rank, " ", name_of(call.kind),
                ": what it reads and what it writes overlap, and the result is not in place"));
    return ncclInvalidUsage;
  }
  if (!call.comm->waiting.empty()) {
    report(text("rank ", call.comm->rank, " calls ", name_of(call.kind), " while ",
                name_of(call.comm->waiting[0].kind), " is in progress; ask ncclCommGetAsyncError"));
    return ncclInvalidUsage;
  }
  ncclResult_t error;
  ncclCommGetAsyncError(call.comm, &error);
  return error == ncclInProgress ? ncclInvalidUsage : error;
}

/// Queues all calls of a group: those of one stream as one operation, whose parts may run in any
/// order.
ncclResult_t queue_all(const std::vector<Call>& calls) {
  std::vector<std::pair<std::shared_ptr<Stream>, Operation>> operations;
  for (const Call& call : calls) {
    std::shared_ptr<Stream> stream = stream_of(call);
    auto same = [&](const auto& entry) { return entry.first == stream; };
    auto found = std::find_if(operations.begin(), operations.end(), same);
    if (found == operations.end())
      found = operations.insert(found, {stream, Operation{"NCCL call", {}, {}}});
    std::shared_ptr<Rendezvous> meeting = gather(call);
    if (!meeting) return ncclInvalidUsage;
    found->second.meetings.push_back(meeting);
    if (call.comm->last.stream) found->second.after.push_back(call.comm->last);
  }
  for (auto& [stream, operation] : operations) {
    Position position = enqueue(stream, std::move(operation));
    for (const Call& call : calls)
      if (stream_of(call) == stream) call.comm->last = position;
  }
  return ncclSuccess;
}

ncclResult_t queue_or_keep(const std::vector<Call>& calls) {
  if (calls.empty() || calls[0].comm->blocking) return queue_all(calls);
  for (const Call& call : calls)
    if (call.comm != calls[0].comm) return ncclInvalidUsage;  // not emulated
  calls[0].comm->waiting = calls;
  return ncclInProgress;
}

/// A call by itself is a group of one.
ncclResult_t add(const Call& call) {
  ncclGroupStart();
  ncclResult_t result = check(call);
  if (result == ncclSuccess)
    group.calls.push_back(call);
  else if (group.result == ncclSuccess)
    group.result = result;
  ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

}  // namespace

namespace plangrad::cuda::emulator {

bool check_match(const Call& a, const Call& b) {
  const bool same_kind = is_message(a.kind) ? a.kind != b.kind : a.kind == b.kind;
  if (same_kind && a.count == b.count && a.type == b.type &&
      (!has_root(a.kind) || a.peer == b.peer))
    return true;
  report(text("NCCL calls that do not match: ", words_of(a), ", but ", words_of(b)));
  return false;
}

std::size_t bytes_read(const Call& call) {
  if (call.kind == Kind::receive) return 0;
  if (call.kind == Kind::broadcast && call.peer != call.comm->rank) return 0;
  const bool to_all = call.kind == Kind::reduce_scatter;
  return call.count * bytes_of(call.type) * (to_all ? call.comm->clique->devices.size() : 1);
}

std::size_t bytes_written(const Call& call) {
  if (call.kind == Kind::send) return 0;
  if (call.kind == Kind::reduce && call.peer != call.comm->rank) return 0;
  const bool from_all = call.kind == Kind::all_gather;
  return call.count * bytes_of(call.type) * (from_all ? call.comm->clique->devices.size() : 1);
}

bool join_in_group(ncclComm_t comm) {
  if (group.depth > 0) group.joining.push_back(comm);
  return group.depth > 0;
}

void queue_waiting(ncclComm_t comm) {
  const std::vector<Call> calls = std::exchange(comm->waiting, {});
  if (comm->error == ncclSuccess) comm->error = queue_all(calls);
}

}  // namespace plangrad::cuda::emulator

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  Group all = std::exchange(group, {});
  for (ncclComm_t comm : all.joining)
    if (all.result == ncclSuccess) all.result = wait_for_ranks(comm);
  return all.result == ncclSuccess ? queue_or_keep(all.calls) : all.result;
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, std::size_t count,
                           ncclDataType_t datatype, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return add({Kind::all_reduce, sendbuff, recvbuff, count, datatype, 0, comm, stream});
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, std::size_t count,
                        ncclDataType_t datatype, ncclRedOp_t, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return add({Kind::reduce, sendbuff, recvbuff, count, datatype, root, comm, stream});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, std::size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t, ncclComm_t comm,
                               cudaStream_t stream) {
  return add({Kind::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, 0, comm, stream});
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, std::size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return add({Kind::broadcast, sendbuff, recvbuff, count, datatype, root, comm, stream});
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, std::size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::all_gather, sendbuff, recvbuff, sendcount, datatype, 0, comm, stream});
}

ncclResult_t ncclSend(const void* sendbuff, std::size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::send, sendbuff, nullptr, count, datatype, peer, comm, stream});
}

ncclResult_t ncclRecv(void* recvbuff, std::size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::receive, nullptr, recvbuff, count, datatype, peer, comm, stream});
}
