// Queues that calls fill, and that host threads empty while they wait.
// Not here: the search for what can be done (scheduler.cpp).
// CUDA C++ Programming Guide, streams and the default stream.
#include "cuda/emulator/stream.h"

#include <algorithm>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/scheduler.h"

namespace plangrad::cuda::emulator {

namespace {

Position end(const std::shared_ptr<Stream>& stream) {
  return {stream, stream->issued, stream->last};
}

/// Adds the ends of the streams that a stream waits for: the default stream and the others of a
/// device wait for each other.
void order_by_default_stream(Scheduler& all, const Stream& stream, std::vector<Position>& after) {
  for (const auto& other : all.streams) {
    bool ordered = other->device == stream.device && other->waits_for_default &&
                   stream.waits_for_default && other->is_default != stream.is_default;
    if (ordered && (observer || other->issued > other->completed)) after.push_back(end(other));
  }
}

/// Runs what the schedule wants to have run as soon as something is queued.
void run_ahead(Scheduler& all, Stream& stream, Scheduler::Lock& lock) {
  if (settings().schedule == Schedule::eager)
    while (Step step = all.find_step(stream)) all.perform(step, lock);
  if (settings().schedule == Schedule::random)
    while (all.random() % 2)
      if (Step step = all.random_step()) all.perform(step, lock);
}

std::shared_ptr<Stream> add_stream(Scheduler& all, Stream stream) {
  stream.index = ++all.streams_made;
  stream.hardware_queue = all.devices[stream.device].streams_made++ % settings().queues;
  all.streams.push_back(std::make_shared<Stream>(std::move(stream)));
  return all.streams.back();
}

}  // namespace

std::shared_ptr<Stream> make_stream(int device, bool waits_for_default) {
  Scheduler::Lock lock(scheduler().mutex);
  return add_stream(scheduler(), {.device = device, .waits_for_default = waits_for_default});
}

void destroy_stream(const std::shared_ptr<Stream>& stream) {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  stream->destroyed = true;
  if (stream->queue.empty() && !observer) std::erase(all.streams, stream);
}

std::shared_ptr<Stream> default_stream(int device) {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  std::shared_ptr<Stream>& stream = all.defaults[device];
  if (!stream) stream = add_stream(all, {.device = device, .is_default = true});
  return stream;
}

std::vector<Position> ends_of(int device) {
  Scheduler::Lock lock(scheduler().mutex);
  std::vector<Position> result;
  for (const auto& stream : scheduler().streams)
    if (stream->device == device) result.push_back(end(stream));
  return result;
}

namespace {

Position append(Scheduler& all, const std::shared_ptr<Stream>& stream, Operation operation) {
  if (stream->recording) {
    stream->recording->operations.push_back(std::move(operation));
    return {stream, 0};
  }
  order_by_default_stream(all, *stream, operation.after);
  ++stream->issued;
  operation.queued = ++all.queued;
  note_queued(all, *stream, operation);
  const Position position = end(stream);
  for (const auto& meeting : operation.meetings) meeting->members.push_back(position);
  stream->queue.push_back(std::move(operation));
  ++all.progress;
  all.changed.notify_all();
  return position;
}

}  // namespace

Position enqueue(const std::shared_ptr<Stream>& stream, Operation operation) {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  all.wait_until_open(stream->device, lock);
  const Position position = append(all, stream, std::move(operation));
  if (!stream->recording) run_ahead(all, *stream, lock);
  return position;
}

void enqueue_together(const std::shared_ptr<Stream>& stream,
                      const std::vector<Operation>& operations) {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  all.wait_until_open(stream->device, lock);
  for (const Operation& operation : operations) append(all, stream, operation);
  if (!stream->recording) run_ahead(all, *stream, lock);
}

Position end_of(const std::shared_ptr<Stream>& stream) {
  Scheduler::Lock lock(scheduler().mutex);
  return end(stream);
}

bool begin_recording(const std::shared_ptr<Stream>& stream) {
  Scheduler::Lock lock(scheduler().mutex);
  if (stream->recording) return false;
  stream->recording.emplace();
  return true;
}

std::optional<Recording> end_recording(const std::shared_ptr<Stream>& stream) {
  Scheduler::Lock lock(scheduler().mutex);
  return std::exchange(stream->recording, std::nullopt);
}

bool spoils_recording(const std::shared_ptr<Stream>& stream) {
  Scheduler::Lock lock(scheduler().mutex);
  return stream->recording && (stream->recording->spoiled = true);
}

bool is_complete(const Position& position) {
  Scheduler::Lock lock(scheduler().mutex);
  return done(position);
}

std::int64_t host_waits() {
  Scheduler::Lock lock(scheduler().mutex);
  return scheduler().waits;
}

bool wait_for(const std::vector<Position>& positions) {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  all.waits += !std::all_of(positions.begin(), positions.end(), done);
  for (;;) {
    Step step = settings().schedule == Schedule::random ? all.random_step() : Step{};
    bool waiting = false;
    for (const Position& position : positions) {
      if (done(position)) continue;
      waiting = true;
      if (!step) step = all.find_step(*position.stream);
    }
    if (!waiting) {
      note_waited(all, positions);
      return true;
    }
    if (step)
      all.perform(step, lock);
    else if (!all.wait_for_change(lock))
      break;
  }
  std::string heads = all.describe();
  lock.unlock();
  report(autograd::text("deadlock: nothing has moved for ", settings().patience,
                        " seconds, and nothing can:", heads));
  return false;
}

void advance(const Position& position) {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  if (done(position)) return;
  if (Step step = all.find_step(*position.stream)) all.perform(step, lock);
}

void withdraw(int device, const void* group) {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  for (const auto& stream : all.streams) {
    if (stream->device != device) continue;
    for (std::size_t i = stream->busy; i < stream->queue.size(); ++i)
      std::erase_if(stream->queue[i].meetings, [&](const auto& meeting) {
        return meeting->group == group && (meeting->withdrawn = true);
      });
  }
  ++all.progress;
  all.changed.notify_all();
}

bool happens(double share) {
  if (share <= 0) return false;
  Scheduler::Lock lock(scheduler().mutex);
  return std::uniform_real_distribution<>()(scheduler().random) < share;
}

void seed_schedule(std::uint64_t seed) {
  Scheduler::Lock lock(scheduler().mutex);
  scheduler().random.seed(seed);
}

bool all_idle() {
  Scheduler::Lock lock(scheduler().mutex);
  return std::all_of(scheduler().streams.begin(), scheduler().streams.end(),
                     [](const auto& stream) { return stream->queue.empty(); });
}

void drop_all() {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  for (const auto& stream : all.streams) {
    stream->queue.clear();
    stream->completed = stream->issued;  // for who still has a position
    if (stream->reached) note_waited(all, {{stream, stream->completed, stream->reached}});
  }
  all.streams.clear();
  all.defaults.clear();
  all.devices.clear();
}

}  // namespace plangrad::cuda::emulator
