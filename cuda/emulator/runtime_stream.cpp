// Streams, events and callbacks.
// Not here: when queued operations run (scheduler.cpp).
// CUDA Runtime API, stream management and event management.
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "cuda/emulator/runtime.h"

namespace plangrad::cuda::emulator {

namespace {

/// A mark in a stream, and when it was reached.
struct Mark {
  Position position;
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

/// Keeps the last mark. What waits for an earlier one still does when there is another.
class Event {
 public:
  Event(int device, bool timed) : device(device), timed(timed) {}

  const int device;
  const bool timed;

  void record(Mark mark) {
    std::lock_guard lock(mutex_);
    last_ = std::move(mark);
  }
  /// The last mark; none if nothing was recorded, and then there is nothing to wait for.
  std::optional<Mark> last() const {
    std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Mark> last_;
};

/// Objects that programs know by handles.
template <class Handle, class Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    std::lock_guard lock(mutex_);
    auto handle = reinterpret_cast<Handle>(object.get());
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<Object> find(Handle handle) {
    std::lock_guard lock(mutex_);
    auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    std::lock_guard lock(mutex_);
    auto node = objects_.extract(handle);
    return node ? node.mapped() : nullptr;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    objects_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

Handles<cudaStream_t, Stream>& streams() {
  static auto& instance = *new Handles<cudaStream_t, Stream>;  // used until the program's end
  return instance;
}
Handles<cudaEvent_t, Event>& events() {
  static auto& instance = *new Handles<cudaEvent_t, Event>;
  return instance;
}

/// Programs may ask again and again, so each call does some work.
cudaError_t query(const Position& position) {
  advance(position);
  return is_complete(position) ? wait_result({position}) : finish(cudaErrorNotReady);
}

}  // namespace

std::shared_ptr<Stream> find_stream(cudaStream_t handle) {
  return handle ? streams().find(handle) : default_stream(current_device());
}

void forget_handles() {
  streams().clear();
  events().clear();
}

cudaError_t wait_result(const std::vector<Position>& positions) {
  return finish(wait_for(positions) ? cudaSuccess : cudaErrorLaunchTimeout);
}

}  // namespace plangrad::cuda::emulator

using namespace plangrad::cuda::emulator;

// ---- streams ---------------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags > cudaStreamNonBlocking) return finish(cudaErrorInvalidValue);
  *stream = streams().add(make_stream(current_device(), flags == cudaStreamDefault));
  return finish(cudaSuccess);
}

/// A priority is a hint, which promises no order: the emulator, which tries any order, ignores it.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return finish(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::shared_ptr<Stream> stream = streams().remove(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  destroy_stream(stream);
  return finish(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (spoils_recording(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  return wait_result({end_of(stream)});
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (spoils_recording(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  return query(end_of(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  std::shared_ptr<Event> event = events().find(event_handle);
  if (!stream || !event) return finish(cudaErrorInvalidResourceHandle);
  if (flags != 0) return finish(cudaErrorInvalidValue);
  if (spoils_recording(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  if (auto mark = event->last()) enqueue(stream, {"wait for event", {}, {mark->position}});
  return finish(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, void (*function)(void*), void* argument) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  enqueue(stream, {"host function", [=] { function(argument); }, {}});
  return finish(cudaSuccess);
}

// ---- events ----------------------------------------------------------------------------------

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (flags & ~cudaEventDisableTiming) return finish(cudaErrorInvalidValue);
  *event = events().add(std::make_shared<Event>(current_device(), flags == 0));
  return finish(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return finish(events().remove(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  std::shared_ptr<Stream> stream = find_stream(stream_handle);
  std::shared_ptr<Event> event = events().find(handle);
  if (!stream || !event || event->device != stream->device)
    return finish(cudaErrorInvalidResourceHandle);
  if (spoils_recording(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  auto time = std::make_shared<std::chrono::steady_clock::time_point>();
  Position position =
      enqueue(stream, {"event", [time] { *time = std::chrono::steady_clock::now(); }, {}});
  event->record({position, time});
  return finish(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  std::shared_ptr<Event> event = events().find(handle);
  if (!event) return finish(cudaErrorInvalidResourceHandle);
  std::optional<Mark> mark = event->last();
  return mark ? wait_result({mark->position}) : finish(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  std::shared_ptr<Event> event = events().find(handle);
  if (!event) return finish(cudaErrorInvalidResourceHandle);
  std::optional<Mark> mark = event->last();
  return mark ? query(mark->position) : finish(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  std::shared_ptr<Event> first = events().find(start), second = events().find(stop);
  if (!first || !second || !first->timed || !second->timed)
    return finish(cudaErrorInvalidResourceHandle);
  std::optional<Mark> from = first->last(), to = second->last();
  if (!from || !to) return finish(cudaErrorInvalidResourceHandle);
  if (!is_complete(from->position) || !is_complete(to->position)) return finish(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return finish(cudaSuccess);
}
