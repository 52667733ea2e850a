// The history of an operation: everything that its stream, its events and the operations that it
// meets have done, and what the host knew when it queued it. Only the checked build asks.
// Not here: when operations run, which proves nothing: they might have run at another time.
// Fidge 1988, Mattern 1989, vector clocks.
#include "cuda/emulator/observer.h"
#include "cuda/emulator/scheduler.h"

namespace plangrad::cuda::emulator {

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
