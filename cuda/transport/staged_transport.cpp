// A request owns its pinned block until neither the device nor the transport below uses it.
// Requests are asked in turn, as MPI's are: a device sends no signal. Chapter 04.
#include "cuda/transport/staged_transport.h"

namespace plangrad::cuda {

DeviceRequest::DeviceRequest(StagedTransport& transport, const Message& message, bool receives)
    : transport_(transport),
      message_(message),
      ready_(std::static_pointer_cast<const EventMark>(message.after ? message.after
                                                                     : transport.mark())),
      begun_(std::make_shared<bool>(false)) {
  before_ = std::exchange(transport.begun_[{message.peer, message.channel, receives}], begun_);
  transport.pending_.push_back(this);
}

DeviceRequest::~DeviceRequest() {
  *begun_ = true;
  std::erase(transport_.pending_, this);
}

/// Whether the request has just ended. An error is kept until done() is called.
bool DeviceRequest::progress() try {
  if (done_) return false;
  transport_.backend().use();
  done_ = advance();
  return done_;
} catch (...) {
  error_ = std::current_exception();
  done_ = true;
  return true;
}

bool DeviceRequest::done() {
  progress();
  if (error_) std::rethrow_exception(error_);
  return done_;
}

PinnedPool::Block PinnedPool::take(std::int64_t bytes) {
  const auto found = free.lower_bound(bytes);
  if (found == free.end() || found->first > 2 * bytes)
    return {bytes, std::make_unique<Pinned>(bytes)};
  Block block = std::move(*found);
  free.erase(found);
  return block;
}

namespace {

constexpr double pause = 50e-6;  // seconds

/// MPI may still use the block of a request that is given up, so the block is never freed.
void keep_for_good(std::unique_ptr<Pinned> block) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Pinned>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(block));
}

/// The common part of both directions: the block, and a copy that uses it.
class StagedRequest : public DeviceRequest {
 public:
  StagedRequest(StagedTransport& transport, const Message& message, bool receives)
      : DeviceRequest(transport, message, receives), block_(transport.pool().take(message.bytes)) {}

  ~StagedRequest() override {
    copied_.finish();
    if (through_ || !request_)
      transport_.pool().put_back(std::move(block_));
    else
      keep_for_good(std::move(block_.second));
  }

 protected:
  Message staged() const {
    return {message_.peer, message_.channel, *block_.second, message_.bytes};
  }
  bool is_through() { return through_ = through_ || request_->done(); }
  void copy(void* to, const void* from, cudaMemcpyKind kind, const Stream& stream) {
    hold(stream);
    PG_CUDA(cudaMemcpyAsync(to, from, message_.bytes, kind, stream));
    copied_.record(stream);
  }

  PinnedPool::Block block_;
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
    copy(*block_.second, message.data, cudaMemcpyDeviceToHost, transport.to_host());
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
      copy(message_.data, *block_.second, cudaMemcpyHostToDevice, transport_.to_device());
    copying_ = true;
    return copied_.reached();
  }

 private:
  bool copying_ = false;
};

}  // namespace

StagedTransport::StagedTransport(Transport& inner, CudaBackend& backend)
    : TransportAround(inner),
      backend_((backend.use(), backend)) {}  // current before streams are made

bool StagedTransport::is_on_device(const Message& message) const {
  parallel::check_message(*this, message);
  if (message.bytes == 0) return false;
  cudaPointerAttributes found{};
  PG_CUDA(cudaPointerGetAttributes(&found, message.data));
  if (found.type != cudaMemoryTypeDevice) return false;
  PG_CHECK(found.device == backend_.ordinal(), "rank ", rank(), ": a message of memory of device ",
           found.device, "; expected the rank's own, ", backend_.ordinal());
  backend_.use();
  return true;
}

Mark StagedTransport::mark() {
  backend_.use();
  return std::make_shared<EventMark>(backend_);
}

std::unique_ptr<Request> StagedTransport::send(const Message& message) {
  return is_on_device(message) ? send_from_device(message) : inner_.send(message);
}

std::unique_ptr<Request> StagedTransport::receive(const Message& message) {
  return is_on_device(message) ? receive_on_device(message) : inner_.receive(message);
}

void StagedTransport::wait(double seconds) {
  if (pending_.empty()) return inner_.wait(seconds);
  bool news = false;
  for (DeviceRequest* request : pending_) news |= request->progress();
  std::erase_if(pending_, [](const DeviceRequest* request) { return request->done_; });
  if (!news) inner_.wait(std::min(seconds, pause));
}

std::unique_ptr<Request> StagedTransport::send_from_device(const Message& message) {
  return std::make_unique<StagedSend>(*this, message);
}

std::unique_ptr<Request> StagedTransport::receive_on_device(const Message& message) {
  return std::make_unique<StagedReceive>(*this, message);
}

}  // namespace plangrad::cuda
