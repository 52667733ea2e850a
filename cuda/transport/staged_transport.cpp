// A request owns its pinned block until neither the device nor the transport below uses it.
// Chapter 04.
#include "cuda/transport/staged_transport.h"

#include <algorithm>

namespace paragrad::cuda {

PinnedPool::~PinnedPool() {
  for (const auto& [bytes, block] : free_) cudaFreeHost(block);
}

std::pair<std::int64_t, void*> PinnedPool::take(std::int64_t bytes) {
  auto found = free_.lower_bound(bytes);
  if (found != free_.end() && found->first <= 2 * bytes) {
    const std::pair<std::int64_t, void*> block = *found;
    free_.erase(found);
    return block;
  }
  void* block = nullptr;
  PG_CUDA(cudaMallocHost(&block, bytes));
  return {bytes, block};
}

namespace {

/// What both directions share: the block, and a copy that uses it.
class StagedRequest : public DeviceRequest {
 public:
  StagedRequest(StagedTransport& transport, const Message& message, bool receives)
      : DeviceRequest(transport, message, receives),
        transport_(transport),
        block_(transport.pool().take(message.bytes)) {}

  /// MPI may still use the block of a request that is given up, so that is not used again.
  ~StagedRequest() override {
    copied_.finish();
    if (through_ || !request_) transport_.pool().put_back(block_);
  }

 protected:
  Message staged() const {
    return {message_.peer, message_.channel, block_.second, message_.bytes};
  }
  bool is_through() { return through_ = through_ || request_->done(); }
  void copy(void* to, const void* from, cudaMemcpyKind kind, const Stream& stream) {
    ready_.hold(stream);
    PG_CUDA(cudaMemcpyAsync(to, from, message_.bytes, kind, stream));
    copied_.record(stream);
  }

  StagedTransport& transport_;
  std::pair<std::int64_t, void*> block_;
  Event copied_;  ///< reached as long as nothing is copied
  std::unique_ptr<Request> request_;

 private:
  bool through_ = false;
};

// [snippet staged send]
class StagedSend : public StagedRequest {
 public:
  StagedSend(StagedTransport& transport, const Message& message)
      : StagedRequest(transport, message, false) {
    copy(block_.second, message.data, cudaMemcpyDeviceToHost, transport.to_host());
  }

 protected:
  bool advance() override {
    if (!request_ && may_begin() && copied_.reached()) {
      request_ = transport_.inner().send(staged());
      begin();
    }
    return request_ && is_through();
  }
};
// [end snippet]

class StagedReceive : public StagedRequest {
 public:
  StagedReceive(StagedTransport& transport, const Message& message)
      : StagedRequest(transport, message, true) {
    request_ = transport.inner().receive(staged());
  }

 protected:
  bool advance() override {
    if (!is_through()) return false;
    if (!copying_)
      copy(message_.data, block_.second, cudaMemcpyHostToDevice, transport_.to_device());
    copying_ = true;
    return copied_.reached();
  }

 private:
  bool copying_ = false;
};

}  // namespace

StagedTransport::StagedTransport(Transport& inner, CudaBackend& backend)
    : DeviceTransport(inner, backend) {}

std::unique_ptr<Request> StagedTransport::send_from_device(const Message& message) {
  return std::make_unique<StagedSend>(*this, message);
}

std::unique_ptr<Request> StagedTransport::receive_on_device(const Message& message) {
  return std::make_unique<StagedReceive>(*this, message);
}

}  // namespace paragrad::cuda
