// Streams: queues of operations, which host threads run while they wait for one of them.
// Nothing runs in the background.
// Not here: the calls of CUDA that fill the queues (runtime_*.cpp).
// CUDA C++ Programming Guide, asynchronous concurrent execution.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plangrad::cuda::emulator {

class Clock;
struct Stream;
struct Rendezvous;

/// The operation of this number in a stream, counted from 1; number 0 is complete from the start.
struct Position {
  std::shared_ptr<Stream> stream;
  std::uint64_t number = 0;
  std::shared_ptr<Clock> history{};  ///< the operation's
};

/// The work of an operation when its turn comes: `run`, or, for messages between devices, a
/// rendezvous with operations of other streams.
struct Operation {
  const char* name = "";
  std::function<void()> run;
  std::vector<Position> after;  ///< besides the operations before it in its stream
  std::vector<std::shared_ptr<Rendezvous>> meetings{};
  const void* function = nullptr;    ///< a kernel's, for reports
  std::uint64_t queued = 0;          ///< the operation's number among all that were queued
  bool begun = false;                ///< it has meetings, and waits in them for other devices
  std::shared_ptr<Clock> history{};  ///< what happened before it; complete once it runs
};

/// A rendezvous runs once, when all its operations have come to the head of their streams.
struct Rendezvous {
  std::string name;
  const void* group = nullptr;  ///< the group whose ranks meet
  std::size_t expected = 0;     ///< operations
  std::function<void()> run;
  std::vector<Position> members{};  ///< the operations, in the order in which they were queued
  /// Whether the parts of other processes are here; asked again and again, once all operations have
  /// come. Null: there are none.
  std::function<bool()> outside{};
  bool withdrawn = false;  ///< whether it will never run
};

/// The work that a stream keeps for a graph instead of queueing it.
struct Recording {
  std::vector<Operation> operations{};
  bool spoiled = false;
};

struct Stream {
  int device = 0;
  int index = 0;                  // among all that were ever made, from 1
  int hardware_queue = 0;         // of the device
  bool waits_for_default = true;  ///< false: made with cudaStreamNonBlocking
  bool is_default = false;
  bool destroyed = false;

  // Guarded by the scheduler's lock.
  std::deque<Operation> queue{};
  std::optional<Recording> recording{};
  std::uint64_t issued = 0, completed = 0;
  bool busy = false;                         // a host thread carries out its head
  std::uint64_t visited = 0;                 // by the search of this number
  std::shared_ptr<Clock> last{}, reached{};  // histories: of what was queued and completed last
};

// All of these may be called by any thread.

std::shared_ptr<Stream> make_stream(int device, bool waits_for_default);
/// Ends a stream, which still finishes its queued operations.
void destroy_stream(const std::shared_ptr<Stream>& stream);
std::shared_ptr<Stream> default_stream(int device);
/// The last operation of each stream of the device.
std::vector<Position> ends_of(int device);

/// Appends an operation, behind what CUDA orders before it: the default stream waits for the other
/// streams of its device, and they for it. A stream that records keeps it.
Position enqueue(const std::shared_ptr<Stream>& stream, Operation operation);
/// Appends several operations, with no others between them.
void enqueue_together(const std::shared_ptr<Stream>& stream,
                      const std::vector<Operation>& operations);
/// The last operation of the stream.
Position end_of(const std::shared_ptr<Stream>& stream);

/// Begins to record; false if the stream records already.
bool begin_recording(const std::shared_ptr<Stream>& stream);
/// Ends recording, and returns what was recorded; nothing if the stream did not record.
std::optional<Recording> end_recording(const std::shared_ptr<Stream>& stream);
/// Whether the stream records; if so, a call that cannot be recorded has spoiled that.
bool spoils_recording(const std::shared_ptr<Stream>& stream);

bool is_complete(const Position& position);
/// Carries out operations until these are complete. False after a deadlock, which it reports.
bool wait_for(const std::vector<Position>& positions);
/// Carries out one operation, if it can, that brings the position nearer.
void advance(const Position& position);

/// Takes the device's operations out of all rendezvous of this group: they then do nothing, and
/// the group's other operations wait in vain.
void withdraw(int device, const void* group);

/// Draws whether something happens that does in this share of all cases, by the seed.
bool happens(double share);

// configure() and reset() call these.
void seed_schedule(std::uint64_t seed);
bool all_idle();
void drop_all();

}  // namespace plangrad::cuda::emulator
