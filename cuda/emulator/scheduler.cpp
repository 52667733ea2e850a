// Finds an operation whose turn has come, and carries it out. For the checked build, it also keeps
// an operation's history: everything that its stream, its events and the operations that it meets
// have done, and what the host knew when it queued it.
// Not here: the calls that ask for operations (stream.cpp). When one runs proves nothing for its
// history: it might have run at another time.
// CUDA C++ Programming Guide, asynchronous concurrent execution; Fidge 1988, Mattern 1989.
#include "cuda/emulator/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"

namespace plangrad::cuda::emulator {

using autograd::text;

Scheduler& scheduler() {
  static Scheduler& instance =
      *new Scheduler;  // never destroyed: streams may be used until the end
  return instance;
}

namespace {

/// What must begin on the first stream before the head of the second one can: an operation that was
/// queued before it in the same hardware queue, or that has begun to wait for other devices, if a
/// device does so for one at a time. Null if there is none.
const Operation* ahead(const Stream& first, const Stream& second) {
  if (&first == &second || first.device != second.device || first.queue.empty()) return nullptr;
  const Operation &head = second.queue.front(), &other = first.queue.front();
  if (settings().one_nccl_operation && !head.meetings.empty() && other.begun) return &other;
  const std::size_t started = other.begun || first.busy;
  if (first.hardware_queue != second.hardware_queue || first.queue.size() <= started)
    return nullptr;
  const Operation& next = first.queue[started];
  return next.queued < head.queued ? &next : nullptr;
}

}  // namespace

// ---- searching -------------------------------------------------------------------------------

/// A search may find operations that begin to wait for others, and so let others begin.
Step Scheduler::find_step(Stream& stream) {
  for (;;) {
    ++searches;
    const std::uint64_t before = begun;
    if (Step step = search(stream); step || begun == before) return step;
  }
}

Step Scheduler::random_step() {
  if (streams.empty()) return {};
  return find_step(*streams[random() % streams.size()]);
}

/// Goes back along what the stream's head waits for. Visits each stream once, so that a search is
/// not exponential.
Step Scheduler::search(Stream& stream) {
  if (std::exchange(stream.visited, searches) == searches) return {};
  if (stream.busy || stream.queue.empty()) return {};
  Operation& head = stream.queue.front();
  if (!head.begun) {
    if (Step step = search_what_is_before(stream)) return step;
    if (!may_begin(stream)) return {};
  }
  if (head.meetings.empty()) return {&stream};
  if (!std::exchange(head.begun, true)) ++begun;
  for (const auto& meeting : head.meetings)
    if (Step step = search_meeting(meeting)) return step;
  return {};
}

/// Searches the streams for which the head of a stream waits.
Step Scheduler::search_what_is_before(Stream& stream) {
  for (const Position& before : stream.queue.front().after)
    if (!done(before))
      if (Step step = search(*before.stream)) return step;
  for (const auto& other : streams)
    if (ahead(*other, stream))
      if (Step step = search(*other)) return step;
  return {};
}

bool Scheduler::may_begin(const Stream& stream) const {
  const std::vector<Position>& after = stream.queue.front().after;
  return std::all_of(after.begin(), after.end(), done) &&
         std::none_of(streams.begin(), streams.end(),
                      [&](const auto& other) { return ahead(*other, stream); });
}

Step Scheduler::search_meeting(const std::shared_ptr<Rendezvous>& meeting) {
  if (meeting->withdrawn) return {};
  bool ready = meeting->members.size() == meeting->expected;
  for (const Position& member : meeting->members)
    if (!has_begun(member)) {
      if (Step step = search(*member.stream)) return step;
      ready = ready && has_begun(member);
    }
  if (ready && meeting->outside && !meeting->outside()) waits_outside = true, ready = false;
  return ready ? Step{nullptr, meeting} : Step{};
}

bool Scheduler::has_begun(const Position& member) const {
  const Stream& stream = *member.stream;
  return !stream.busy && stream.completed == member.number - 1 && stream.queue.front().begun;
}

// ---- carrying out ----------------------------------------------------------------------------

void Scheduler::perform(const Step& step, Lock& lock) {
  std::set<Stream*> used;
  if (step.stream) used.insert(step.stream);
  if (step.meeting)
    for (const Position& member : step.meeting->members) used.insert(member.stream.get());
  for (Stream* stream : used) stream->busy = true;
  note_step(used);
  const Stream& first = **used.begin();
  const Operation& head = first.queue.front();
  const auto& run = step.meeting ? step.meeting->run : head.run;
  const char* name = step.meeting ? step.meeting->name.c_str() : head.name;
  const Running running{name, first.device, first.index, first.completed + 1, head.history.get()};

  lock.unlock();
  [&]() noexcept {
    if (!run) return;
    if (observer) observer->begin(running);
    run();
    if (observer) observer->end();
  }();
  lock.lock();

  for (Stream* stream : used) {
    stream->busy = false;
    std::erase(stream->queue.front().meetings, step.meeting);
    if (stream->queue.front().meetings.empty()) complete_head(*stream);
  }
  ++progress;
  changed.notify_all();
}

void Scheduler::complete_head(Stream& stream) {
  stream.reached = stream.queue.front().history;
  stream.queue.pop_front();
  ++stream.completed;
  if (stream.destroyed && stream.queue.empty() && !observer)  // which must know what it did
    std::erase_if(streams, [&](const auto& other) { return other.get() == &stream; });
}

/// Nobody is told of another process's progress, so that is asked for again and again.
bool Scheduler::wait_for_change(Lock& lock) {
  const std::uint64_t seen = progress;
  const bool outside = std::exchange(waits_outside, false);
  const std::chrono::duration<double> patience(outside ? 0.001 : settings().patience);
  return changed.wait_for(lock, patience, [&] { return progress != seen; }) || outside ||
         std::any_of(streams.begin(), streams.end(), [](const auto& s) { return s->busy; });
}

void Scheduler::wait_until_open(int device, Lock& lock) {
  changed.wait(lock, [&] {
    const std::thread::id by = devices[device].closed_by;
    return by == std::thread::id() || by == std::this_thread::get_id();
  });
}

// ---- describing ------------------------------------------------------------------------------

std::string Scheduler::describe() const {
  std::string result;
  for (const auto& stream : streams) {
    if (stream->queue.empty()) continue;
    const Operation& head = stream->queue.front();
    result += text("\n  device ", stream->device, stream->is_default ? ", default stream" : "",
                   ": ", stream->queue.size(), " queued, first ", head.name);
    if (head.function) result += text(' ', name_of_function(head.function));
    for (const Position& before : head.after)
      if (!done(before)) result += text(", waits for device ", before.stream->device);
    for (const auto& other : streams)
      if (const Operation* before = ahead(*other, *stream))
        result += text(", behind ", before->name, " of another stream");
    for (const auto& meeting : head.meetings) {
      auto first = [&](const Position& member) { return has_begun(member); };
      result += text(", ", meeting->name, " (called by ", meeting->members.size(), " of ",
                     meeting->expected, ", first in the queues of ",
                     std::count_if(meeting->members.begin(), meeting->members.end(), first),
                     meeting->withdrawn ? ", and one has left)" : ")");
    }
  }
  return result;
}

namespace {

constexpr int host_stream = 0;  // streams are counted from 1

}  // namespace

/// All host threads are taken for one, so some races between them and devices are missed.
void note_queued(Scheduler& all, Stream& stream, Operation& operation) {
  if (!observer) return;
  operation.history = stream.last = std::make_shared<Clock>(all.host);
  all.host.set(host_stream, all.host.at(host_stream) + 1);
}

void note_step(const std::set<Stream*>& streams) {
  if (!observer) return;
  Clock common;
  for (Stream* stream : streams) {
    const Operation& head = stream->queue.front();
    common.join(*head.history);
    if (stream->reached) common.join(*stream->reached);
    for (const Position& before : head.after)
      if (before.history) common.join(*before.history);
    common.set(stream->index, stream->completed + 1);
  }
  for (Stream* stream : streams) *stream->queue.front().history = common;
}

void note_waited(Scheduler& all, const std::vector<Position>& positions) {
  for (const Position& position : positions)
    if (position.history) all.host.join(*position.history);
}

Clock history_of_host() {
  Scheduler::Lock lock(scheduler().mutex);
  return scheduler().host;
}

}  // namespace plangrad::cuda::emulator
