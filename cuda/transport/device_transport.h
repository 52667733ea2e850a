// DeviceTransport: what transports of device memory share. It stands before another transport,
// which carries all else: messages of host memory, positions, failures.
// Not here: how bytes of a device travel (staged_transport.h, nccl_transport.h). Chapter 04.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <tuple>

#include "cuda/backend/cuda_backend.h"
#include "cuda/launch/stream.h"
#include "parallel/transports/transport.h"

namespace paragrad::cuda {

using parallel::Message;
using parallel::Request;
using parallel::Transport;

class DeviceRequest;

/// Messages whose address is memory of the backend's device follow the kernels that are queued on
/// its stream when they are started: those that write what is sent, or that still read what stood
/// where a message is received. The host never waits for that: a request asks an event. Kernels
/// that are queued once a message is done need not wait for it.
/// On a channel, messages of host memory and of device memory each arrive in their order, but not
/// all of them in one.
class DeviceTransport : public Transport {
 public:
  /// Both must outlive it. Makes the backend's device current.
  DeviceTransport(Transport& inner, CudaBackend& backend) : inner_(inner), backend_(backend) {
    backend.use();
  }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const char* name() const override { return inner_.name(); }

  std::unique_ptr<Request> send(const Message& message) override;
  std::unique_ptr<Request> receive(const Message& message) override;

  /// Sleeps little while the device has messages to see to: nobody is told when it is through.
  void wait(double seconds) override;
  void wake() override { inner_.wake(); }
  void publish(parallel::Position position) override { inner_.publish(position); }
  parallel::Position position(int rank) const override { return inner_.position(rank); }
  double silence(int rank) const override { return inner_.silence(rank); }
  void fail(const std::string& what) override { inner_.fail(what); }
  std::optional<parallel::Failure> failure() override { return inner_.failure(); }

  Transport& inner() const { return inner_; }
  CudaBackend& backend() const { return backend_; }

 protected:
  virtual std::unique_ptr<Request> send_from_device(const Message& message) = 0;
  virtual std::unique_ptr<Request> receive_on_device(const Message& message) = 0;
  /// Then its device is made current.
  bool is_on_device(const Message& message) const;

 private:
  friend class DeviceRequest;

  Transport& inner_;
  CudaBackend& backend_;
  std::deque<DeviceRequest*> pending_;  // the oldest first
  // Whether the last message has begun, by peer, channel, and whether it is received.
  std::map<std::tuple<int, int, bool>, std::shared_ptr<bool>> begun_;
};

/// An NcclTransport (nccl_transport.h).
/// throws: Error where this build has no NCCL
std::unique_ptr<Transport> make_nccl_transport(Transport& inner, CudaBackend& backend,
                                               double timeout);

/// A message of device memory under way.
class DeviceRequest : public Request {
 public:
  DeviceRequest(DeviceTransport& transport, const Message& message, bool receives);
  ~DeviceRequest() override;
  DeviceRequest(const DeviceRequest&) = delete;
  DeviceRequest& operator=(const DeviceRequest&) = delete;

  bool done() final;

 protected:
  /// Goes as far as it can without waiting; true once the message is through.
  virtual bool advance() = 0;
  /// Whether the messages before it on its channel have begun to travel, so that it may.
  bool may_begin() const { return !before_ || *before_; }
  void begin() { *begun_ = true; }

  const Message message_;
  Event ready_;  ///< the kernels that were queued before it

 private:
  friend class DeviceTransport;
  bool progress();

  DeviceTransport& transport_;
  std::shared_ptr<bool> before_, begun_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace paragrad::cuda
