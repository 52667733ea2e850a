// The implementation of stream.h: all streams, and the search for an operation that can run.
// Not here: the work of operations.
// CUDA C++ Programming Guide, asynchronous concurrent execution.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "cuda/emulator/clock.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/stream.h"

namespace paragrad::cuda::emulator {

/// A step that can be done now: the operation at the head of a stream, or a rendezvous.
struct Step {
  Stream* stream = nullptr;
  std::shared_ptr<Rendezvous> meeting{};
  explicit operator bool() const { return stream || meeting; }
};

struct Scheduler {
  using Lock = std::unique_lock<std::mutex>;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Stream>> streams;
  std::map<int, std::shared_ptr<Stream>> defaults;
  std::uint64_t searches = 0;
  std::uint64_t progress = 0;  // counts operations that came or went
  std::mt19937_64 random;
  int streams_made = 0;
  Clock host;  // what the host knows to have happened

  /// A step that can be done now, and without which `stream` can't advance.
  Step find_step(Stream& stream);
  /// A step for a stream that is drawn at random.
  Step random_step();
  /// Carries a step out, without the lock.
  void perform(const Step& step, Lock& lock);
  /// Waits until another thread has changed something. False after the patience of the settings,
  /// unless a thread is at work.
  bool wait_for_change(Lock& lock);
  /// Describes every stream that has something queued, with what its head waits for.
  std::string describe() const;

 private:
  Step search(Stream& stream);
  Step search_meeting(const std::shared_ptr<Rendezvous>& meeting);
  bool heads_its_stream(const Position& member) const;
  void complete_head(Stream& stream);
};

Scheduler& scheduler();

// For the checked build, with the lock: the order of what is queued, carried out and waited for.
void note_queued(Scheduler& all, Stream& stream, Operation& operation);
void note_step(const std::set<Stream*>& streams);
void note_waited(Scheduler& all, const std::vector<Position>& positions);
/// Call it without the lock.
Clock history_of_host();

inline bool done(const Position& position) { return position.stream->completed >= position.number; }

}  // namespace paragrad::cuda::emulator
