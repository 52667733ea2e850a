// The implementation of stream.h: all streams, and the search for an operation that can run.
// Not here: the work of operations.
// CUDA C++ Programming Guide, asynchronous concurrent execution.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/stream.h"

namespace plangrad::cuda::emulator {

/// A step that can be done now: the operation at the head of a stream, or a rendezvous.
struct Step {
  Stream* stream = nullptr;
  std::shared_ptr<Rendezvous> meeting{};
  explicit operator bool() const { return stream || meeting; }
};

/// What streams of a device share.
struct Device {
  int streams_made = 0;
  std::set<int> peers{};        ///< the devices of its communicators, itself too
  int calls_that_may_wait = 0;  ///< calls since it has peers that may wait for them
  std::thread::id closed_by{};  ///< the thread that waits for peers: no other may queue work
};

struct Scheduler {
  using Lock = std::unique_lock<std::mutex>;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Stream>> streams;
  std::map<int, std::shared_ptr<Stream>> defaults;
  std::uint64_t searches = 0;
  std::uint64_t begun = 0;     // operations that have begun to wait for other devices
  std::uint64_t progress = 0;  // counts operations that came or went
  bool waits_outside = false;  // the last search found what waits for other processes
  std::mt19937_64 random;
  int streams_made = 0;
  std::uint64_t queued = 0;  // operations
  std::int64_t waits = 0;    // of host threads, for what was not complete
  std::map<int, Device> devices;
  Clock host;  // what the host knows to have happened

  /// A step that can be done now, and without which `stream` can't advance.
  Step find_step(Stream& stream);
  /// A step for a stream that is drawn at random.
  Step random_step();
  /// Carries a step out, without the lock.
  void perform(const Step& step, Lock& lock);
  /// Waits until another thread has changed something, or other processes may have. False after the
  /// patience of the settings, unless a thread is at work.
  bool wait_for_change(Lock& lock);
  /// Waits until no other thread keeps the device closed.
  void wait_until_open(int device, Lock& lock);
  /// Describes every stream that has something queued, with what its head waits for.
  std::string describe() const;

 private:
  Step search(Stream& stream);
  Step search_meeting(const std::shared_ptr<Rendezvous>& meeting);
  Step search_what_is_before(Stream& stream);
  bool may_begin(const Stream& stream) const;
  bool has_begun(const Position& member) const;
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

}  // namespace plangrad::cuda::emulator
