// Requests are asked in turn, as MPI's are: a device rings no bell.
// Chapter 04.
#include "cuda/transport/device_transport.h"

#include <algorithm>
#include <utility>

#include "parallel/transports/channels.h"

namespace paragrad::cuda {

namespace {

constexpr double pause = 50e-6;  // seconds

}  // namespace

bool DeviceTransport::is_on_device(const Message& message) const {
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

std::unique_ptr<Request> DeviceTransport::send(const Message& message) {
  return is_on_device(message) ? send_from_device(message) : inner_.send(message);
}

std::unique_ptr<Request> DeviceTransport::receive(const Message& message) {
  return is_on_device(message) ? receive_on_device(message) : inner_.receive(message);
}

void DeviceTransport::wait(double seconds) {
  if (pending_.empty()) return inner_.wait(seconds);
  bool news = false;
  for (DeviceRequest* request : pending_) news |= request->progress();
  std::erase_if(pending_, [](const DeviceRequest* request) { return request->done_; });
  if (!news) inner_.wait(std::min(seconds, pause));
}

DeviceRequest::DeviceRequest(DeviceTransport& transport, const Message& message, bool receives)
    : message_(message), transport_(transport), begun_(std::make_shared<bool>(false)) {
  ready_.record(transport.backend().stream());
  before_ = std::exchange(transport.begun_[{message.peer, message.channel, receives}], begun_);
  transport.pending_.push_back(this);
}

DeviceRequest::~DeviceRequest() {
  *begun_ = true;
  std::erase(transport_.pending_, this);
}

/// Whether it has come to its end just now. An error is kept for who asks whether it is done.
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

}  // namespace paragrad::cuda
