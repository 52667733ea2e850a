// StagedTransport: messages of device memory by way of pinned host memory and a transport of host
// memory. It works wherever that one does: MPI without NCCL, several ranks on one GPU.
// Not here: NCCL (nccl_transport.h).
// Chapter 04; CUDA C++ Programming Guide, page-locked host memory.
#pragma once

#include "cuda/transport/device_transport.h"

namespace paragrad::cuda {

/// Pinned memory, kept for the next message of about its size.
class PinnedPool {
 public:
  PinnedPool() = default;
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// At least `bytes` bytes.
  std::pair<std::int64_t, void*> take(std::int64_t bytes);
  void put_back(std::pair<std::int64_t, void*> block) { free_.insert(block); }

 private:
  std::multimap<std::int64_t, void*> free_;  // by size
};

/// A send is copied to the host by a stream of its own, and begins to travel when it is there; a
/// message that has arrived is copied to the device by another.
class StagedTransport : public DeviceTransport {
 public:
  StagedTransport(Transport& inner, CudaBackend& backend);

  PinnedPool& pool() { return pool_; }
  const Stream& to_host() const { return to_host_; }
  const Stream& to_device() const { return to_device_; }

 protected:
  std::unique_ptr<Request> send_from_device(const Message& message) override;
  std::unique_ptr<Request> receive_on_device(const Message& message) override;

 private:
  PinnedPool pool_;
  Stream to_host_, to_device_;
};

}  // namespace paragrad::cuda
