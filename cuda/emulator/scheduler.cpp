// Finds an operation whose turn has come, and carries it out.
// Not here: the calls that ask for it (stream.cpp).
// CUDA C++ Programming Guide, asynchronous concurrent execution.
#include "cuda/emulator/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/report.h"

namespace paragrad::cuda::emulator {

using autograd::text;

Scheduler& scheduler() {
  static Scheduler& instance =
      *new Scheduler;  // never destroyed: streams may be used until the end
  return instance;
}

// ---- searching -------------------------------------------------------------------------------

Step Scheduler::find_step(Stream& stream) {
  ++searches;
  return search(stream);
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
  const Operation& head = stream.queue.front();
  bool ready = true;
  for (const Position& before : head.after)
    if (!done(before)) {
      ready = false;
      if (Step step = search(*before.stream)) return step;
    }
  if (!ready) return {};
  if (head.meetings.empty()) return {&stream};
  for (const auto& meeting : head.meetings)
    if (Step step = search_meeting(meeting)) return step;
  return {};
}

Step Scheduler::search_meeting(const std::shared_ptr<Rendezvous>& meeting) {
  if (meeting->withdrawn) return {};
  bool ready = meeting->members.size() == meeting->expected;
  for (const Position& member : meeting->members)
    if (!heads_its_stream(member)) {
      ready = false;
      if (Step step = search(*member.stream)) return step;
    }
  return ready ? Step{nullptr, meeting} : Step{};
}

bool Scheduler::heads_its_stream(const Position& member) const {
  const Stream& stream = *member.stream;
  return !stream.busy && stream.completed == member.number - 1 &&
         std::all_of(stream.queue.front().after.begin(), stream.queue.front().after.end(), done);
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

bool Scheduler::wait_for_change(Lock& lock) {
  std::uint64_t seen = progress;
  std::chrono::duration<double> patience(settings().patience);
  return changed.wait_for(lock, patience, [&] { return progress != seen; }) ||
         std::any_of(streams.begin(), streams.end(), [](const auto& s) { return s->busy; });
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
    for (const auto& meeting : head.meetings) {
      auto first = [&](const Position& member) { return heads_its_stream(member); };
      result += text(", ", meeting->name, " (called by ", meeting->members.size(), " of ",
                     meeting->expected, ", first in the queues of ",
                     std::count_if(meeting->members.begin(), meeting->members.end(), first),
                     meeting->withdrawn ? ", and one has left)" : ")");
    }
  }
  return result;
}

}  // namespace paragrad::cuda::emulator
