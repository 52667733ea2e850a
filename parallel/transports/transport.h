// Transport: how bytes get from rank to rank, and how ranks learn where the others are.
// Not here: what the bytes mean (engine) and sums over ranks (collective). Chapter 04.
//
// The room parallel/transports moves bytes between ranks and knows nothing of plans:
// transport.h           the interface, and what each transport promises
// threads_transport.h   ranks that are threads of one process; mpi_transport.h: processes and hosts
// launch.h              ranks as threads, waits with deadlines, messages outside of a plan
// pack.h                values as bytes, for messages outside of a plan; mpi_board.h: MPI's notes
// A new transport is a class with this interface; tests/parallel/support/transport_suite.h tests
// it. A rank that gives up says what it waited for, and where the other rank was.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "autograd/error.h"

namespace plangrad::autograd {
class Tensor;
}

namespace plangrad::parallel {

/// Work that may take a rank a long time: the computation of a cell, or what lies between plans.
enum class Work : std::int16_t { none, computing, preparing, saving, reporting };

/// A rank's position, as it tells the others: a cell of its row, or work between plans.
struct Position {
  std::int32_t cell = 0;   ///< index in the row; its size at the end of the row
  std::int16_t plan = -1;  ///< number of the plan in the run; -1: nothing was heard yet
  Work work = Work::none;

  bool is_known() const { return plan >= 0 || work != Work::none; }
  friend bool operator==(const Position&, const Position&) = default;
};

/// A message in flight.
class Request {
 public:
  virtual ~Request() = default;
  /// Whether the message was sent, so that its bytes may be overwritten, or was received.
  /// throws: Error if the two ends disagree on its size, or the connection is lost
  virtual bool done() = 0;
};

/// The work that was queued on a rank's device at a moment, which the transport alone can read.
using Mark = std::shared_ptr<const void>;

/// A message that this rank sends or expects. `data` must live until the request is done.
struct Message {
  int peer = 0;
  int channel = 0;  ///< between two ranks, its messages arrive in the order they were sent
  void* data = nullptr;
  std::int64_t bytes = 0;
  Mark after = nullptr;  ///< work that it waits for; null: all that is queued when it starts
};

// MPI guarantees tags up to 32767 only, so channels are small numbers.
inline constexpr int plan_channel = 0;         ///< messages between two ranks that a plan lists
inline constexpr int control_channel = 30000;  ///< messages between ranks outside of a plan
inline constexpr int last_channel = control_channel;

/// The channel for sums and gathers of one of a plan's groups.
constexpr int group_channel(int group) { return 1 + group; }

/// The longest sleep, in seconds, that a clock accepts; more would overflow.
inline constexpr double longest_sleep = 1e6;

/// What the members of a group do together. Member i owns chunk i of the values (chunk_range).
enum class Joint { all_reduce, reduce_scatter, all_gather };

/// Groups of ranks that sum, and pairs that send messages: sender, receiver.
struct Connections {
  std::set<std::vector<int>> sums, messages;
};

/// A rank that failed, and its report.
struct Failure {
  int rank = 0;
  std::string what;
};

/// One rank's access to all others, for one thread at a time; but any thread of the rank may call
/// mark(), wake(), publish(), position(), silence() and fail().
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* name() const = 0;

  /// Starts to send, and returns at once; the memory must not change until the request is done.
  virtual std::unique_ptr<Request> send(const Message& message) = 0;
  /// Starts to receive; the memory has the message once the request is done.
  virtual std::unique_ptr<Request> receive(const Message& message) = 0;

  /// Marks what is queued on the rank's device, so that a message that starts later, as others go
  /// before it, waits for no more than that. Null on hosts, where values are there at once.
  virtual Mark mark() { return nullptr; }

  /// Sums or gathers x (any shape) in place in the group `ranks`, ascending, by the transport's own
  /// collective; null if it has none. All of these ranks call it with equal sizes and types, one at
  /// a time on a channel. The transport chooses the order of additions; all get the same values.
  /// after: the work that it waits for; null: all that is queued when it starts
  virtual std::unique_ptr<Request> together(Joint /*what*/, const std::vector<int>& /*ranks*/,
                                            int /*channel*/, const autograd::Tensor& /*x*/,
                                            const Mark& /*after*/) {
    return nullptr;
  }
  /// Bytes of a piece of a sum or gather that is made of messages: on fast links, more.
  virtual std::int64_t piece_bytes() const { return 256 * 1024; }
  /// Connects ranks before they need it. All ranks call it together, with equal arguments.
  virtual void prepare(const Connections&) {}

  /// Sleeps until a request may have made progress, wake() is called, or `seconds` have passed.
  virtual void wait(double seconds) = 0;
  virtual void wake() = 0;  ///< ends this rank's wait(), or the next one; any thread may call it

  virtual void publish(Position position) = 0;    ///< tells the others, who may learn it later
  virtual Position position(int rank) const = 0;  ///< what a rank published last, as heard here
  /// Seconds since a rank was last heard from; 0 if ranks see each other's positions at once.
  virtual double silence(int rank) const = 0;

  /// Tells the others that this rank gives up; from then on their failure() says so.
  virtual void fail(const std::string& what) = 0;
  /// The first failure of another rank, which gave up or is gone.
  virtual std::optional<Failure> failure() = 0;
};

/// throws: Error if the peer or the channel does not exist, or the size is negative
inline void check_message(const Transport& transport, const Message& message) {
  PG_CHECK(message.peer >= 0 && message.peer < transport.size(), "rank ", transport.rank(),
           ": a message to or from rank ", message.peer, "; there are ",
           autograd::counted(transport.size(), "rank"));
  PG_CHECK(message.channel >= 0 && message.channel <= last_channel, "rank ", transport.rank(),
           ": channel ", message.channel, "; channels are 0 to ", last_channel);
  PG_CHECK(message.bytes >= 0 && (message.data || message.bytes == 0), "rank ", transport.rank(),
           ": a message of ", message.bytes, " bytes without an address");
}

}  // namespace plangrad::parallel
