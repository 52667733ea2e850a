// StagedTransport: messages of device memory by way of pinned host memory and another transport,
// which carries everything else, too: messages of host memory, positions, failures. It works
// wherever that transport does: MPI without NCCL, several ranks on one GPU.
// Not here: messages from GPU to GPU (nccl_transport.h).
// Chapters 04 and 13; CUDA C++ Programming Guide, page-locked host memory.
//
// The room cuda/transport moves memory of devices between ranks; engines see a Transport:
// staged_transport.h   the class that all share: a request follows the kernels that were queued
//                      before it, and asks events instead of waiting
// nccl_transport.h     NCCL's send and receive in place of the copies, if each rank has a device:
//                      an agreement of the ranks, then a call in its turn; and NCCL's own sums
//                      and gathers
// nccl_comm.h          a communicator whose calls never wait, and the turns: one order of all
//                      calls, which rank 0 gives
// Read staged_transport.cpp first: nccl_transport.cpp has the same two ends of a message.
#pragma once

#include <deque>
#include <exception>

#include "cuda/backend/cuda_backend.h"
#include "parallel/transports/launch.h"

namespace plangrad::cuda {

using parallel::Joint;
using parallel::Mark;
using parallel::Message;
using parallel::Request;
using parallel::Transport;

class DeviceRequest;

/// An event after the work that the backend's stream has been given.
struct EventMark {
  explicit EventMark(const CudaBackend& backend) { event.record(backend.stream()); }
  Event event;
};

/// A store of pinned memory, kept for the next message of about its size.
struct PinnedPool {
  using Block = std::pair<const std::int64_t, std::unique_ptr<Pinned>>;
  std::multimap<std::int64_t, std::unique_ptr<Pinned>> free;  // by size

  /// Returns at least `bytes` bytes.
  Block take(std::int64_t bytes);
  void put_back(Block block) { free.insert(std::move(block)); }
};

/// Messages of the device's memory follow the kernels that are queued on the backend's stream at
/// their mark, or else when they start: kernels that write the values to send, or that still read
/// the memory to receive into. The host waits for none: a request asks an event. Kernels queued
/// once a message is done need not wait for it. On a channel, messages of host memory and of device
/// memory each arrive in their order, but not in one common order. A stream of its own copies a
/// send to the host, where it then begins to travel; another stream copies a message that has
/// arrived to the device.
class StagedTransport : public parallel::TransportAround {
 public:
  /// The arguments must outlive it. Makes the backend's device current.
  StagedTransport(Transport& inner, CudaBackend& backend);

  std::unique_ptr<Request> send(const Message& message) override;
  std::unique_ptr<Request> receive(const Message& message) override;

  Mark mark() override;
  /// Sleeps briefly while device messages are in flight: nothing signals that the device is done.
  void wait(double seconds) override;

  Transport& inner() const { return inner_; }
  CudaBackend& backend() const { return backend_; }
  PinnedPool& pool() { return pool_; }
  const Stream& to_host() const { return to_host_; }
  const Stream& to_device() const { return to_device_; }

 protected:
  virtual std::unique_ptr<Request> send_from_device(const Message& message);
  virtual std::unique_ptr<Request> receive_on_device(const Message& message);
  /// Whether the message is memory of the device, which then becomes current.
  bool is_on_device(const Message& message) const;

 private:
  friend class DeviceRequest;

  CudaBackend& backend_;
  PinnedPool pool_;
  Stream to_host_{Stream::urgent}, to_device_{Stream::urgent};
  std::deque<DeviceRequest*> pending_;  // the oldest first
  // Whether the last message has begun, by peer, channel, and whether it is received.
  std::map<std::tuple<int, int, bool>, std::shared_ptr<bool>> begun_;
};

/// Makes an NcclTransport (nccl_transport.h).
/// throws: Error if this build has no NCCL
std::unique_ptr<Transport> make_nccl_transport(Transport& inner, CudaBackend& backend,
                                               double timeout);

/// A message of device memory in flight.
class DeviceRequest : public Request {
 public:
  DeviceRequest(StagedTransport& transport, const Message& message, bool receives);
  ~DeviceRequest() override;

  bool done() final;

 protected:
  /// Advances as far as possible without waiting; true once the message is done.
  virtual bool advance() = 0;
  /// Whether the messages before it on its channel have begun to travel, so that it may, too.
  bool may_begin() const { return !before_ || *before_; }
  void begin() { *begun_ = true; }

  StagedTransport& transport_;
  const Message message_;
  /// Has the stream wait for the kernels that the message follows.
  void hold(cudaStream_t stream) const { ready_->event.hold(stream); }

 private:
  friend class StagedTransport;
  bool progress();

  const std::shared_ptr<const EventMark> ready_;
  std::shared_ptr<bool> before_, begun_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace plangrad::cuda
