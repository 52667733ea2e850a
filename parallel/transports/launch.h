// Launch: starts ranks as threads, waits with deadlines, and sends messages outside of a plan; and
// how a process joins the ranks of its job: what mpirun, srun or torchrun tell one of several (a
// program that ignored it would train the same model in every process), and which ranks share a
// host.
// TransportAround: the base of transports that change some calls of another one.
// Not here: talking to the others (mpi_transport), and plans (engine). Chapters 04 and 10.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "parallel/transports/transport.h"

namespace plangrad::parallel {

/// An error that every rank finds, so that rank 0 alone has to print it.
struct SharedError : autograd::Error {
  using Error::Error;
};

/// Thrown by a rank that ends as if its machine were gone: nothing of what it held may be used.
struct RankLost : autograd::Error {
  using Error::Error;
};

/// Runs body(transport) on one thread per rank, and returns when all threads have ended.
/// throws: Error `rank 2: ...` with the report of the rank that failed first. The reports of the
///         others follow line by line; usually they say that rank 2 stopped them.
void run_ranks(int ranks, const std::function<void(Transport&)>& body, int capacity = 0);

/// Puts `rank 2: ` before `what`, unless it begins with that already; rank -1 adds nothing.
std::string report(int rank, const std::string& what);

/// Tells the others that this rank works on its own between plans, often on files. While this
/// object lives, they learn what the rank works on and hear signs of life, so they wait for it past
/// their deadlines. Its thread alone uses the transport meanwhile; no message may be in flight.
class AtWork {
 public:
  AtWork(Transport& transport, Work work);
  ~AtWork();

 private:
  void give_signs_of_life();

  Transport& transport_;
  Position position_;  // published again at the end
  std::atomic<bool> over_ = false;
  std::thread thread_;  // last: it uses all of the above
};

/// Describes where a rank was that has been heard of: "saving" or another kind of work, else
/// `in_plan`. It begins with "last heard of, 3 s ago, " if the news is more than a second old.
std::string place_of(const Transport& transport, int rank, const std::string& in_plan);

/// A limit of `seconds` without any progress, which begins now: what is late is not lost.
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  double seconds() const { return seconds_; }
  double left() const;
  /// The longest sleep before the next look, so that progress is seen in time.
  double longest_wait() const { return std::min(left(), seconds_ / 4); }
  /// Restarts the limit if another rank has moved since the last call; if one is at work, was heard
  /// of within the limit, and has not worked on the same for 30 limits; or if this process itself
  /// did not run, as after Ctrl-Z. To be called at least each longest_wait().
  void restart_if_progress(const Transport& transport);

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  std::vector<Position> places_;  // of the others
  Clock::time_point start_ = Clock::now(), moved_ = start_, looked_ = start_;
};

/// Sleeps until something may have happened. `peer` is the rank that this one waits for; -1: none.
/// Time in which another rank advances in its row or is at work (AtWork) does not count, so that
/// fast ranks wait for slow ones.
/// `what` is called for the report alone: a short wait has no time to write a text.
/// throws: Error `rank 1: waited 60 s for <what>; rank 2 was at ...` after the deadline, or if
///         another rank has failed
void wait_for_news(Transport& transport, Deadline& deadline,
                   const std::function<std::string()>& what, int peer = -1);

/// Sleeps until the request is done; throws as wait_for_news does.
void wait_for(Transport& transport, Request& request, double seconds, const std::string& what,
              int peer = -1);

// All ranks call these together. `timeout`: seconds that a wait may take while no rank advances.

/// Returns the bytes of all ranks, in rank order, on rank 0; an empty list elsewhere.
std::vector<std::string> gather_bytes(Transport& transport, std::string bytes, double timeout);
/// Returns rank 0's bytes on every rank.
std::string broadcast_bytes(Transport& transport, std::string bytes, double timeout);
/// Calls `f` on rank 0, and returns its result on every rank.
/// throws: SharedError on every rank, if `f` throws
std::string broadcast_result(Transport& transport, double timeout, std::function<std::string()> f);
/// Returns the bytes of all ranks, in rank order, on every rank.
std::vector<std::string> all_gather_bytes(Transport& transport, std::string bytes, double timeout);

// ---- around another transport ----

/// Passes on to another transport what every transport has. Its own collectives and the size of
/// pieces stay behind: they may not suit what a derived class makes of messages.
class TransportAround : public Transport {
 public:
  /// `inner` must outlive it.
  explicit TransportAround(Transport& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const char* name() const override { return inner_.name(); }
  std::unique_ptr<Request> send(const Message& x) override { return inner_.send(x); }
  std::unique_ptr<Request> receive(const Message& x) override { return inner_.receive(x); }
  Mark mark() override { return inner_.mark(); }
  void wait(double seconds) override { inner_.wait(seconds); }
  void wake() override { inner_.wake(); }
  void publish(Position position) override { inner_.publish(position); }
  Position position(int rank) const override { return inner_.position(rank); }
  double silence(int rank) const override { return inner_.silence(rank); }
  void fail(const std::string& what) override { inner_.fail(what); }
  std::optional<Failure> failure() override { return inner_.failure(); }

 protected:
  Transport& inner_;
};

// ---- processes and hosts ----

struct RankEnvironment {
  std::string launcher;  ///< "Open MPI", "MPICH", "Slurm" or "torchrun"
  std::string variable;  ///< the environment's variable that says the rank
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  ///< among the ranks of this host; -1: unknown
};

/// Reads a variable of the environment; null if it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Returns what the launcher tells this process; nothing if it was started alone, or as the only
/// one. A Slurm batch script sees the variables of its job without being one of its tasks; having a
/// job but no step tells it apart.
/// throws: Error if a value is not a number, or the values contradict each other
std::optional<RankEnvironment> rank_environment(const Variable& variable = std::getenv);
/// Returns "env -u RANK -u PMI_RANK", of all ranks that are set: what follows starts as none.
std::string without_ranks(const Variable& variable = std::getenv);

/// The name of this host; empty if it doesn't tell it.
std::string host_name();
/// Numbers the hosts, given the name of each rank's host: in the order of their first ranks, so
/// that sums by hosts have one order. Returns host numbers by rank.
std::vector<int> host_numbers(const std::vector<std::string>& names);
/// Returns host numbers by rank, from the hosts' own names. All ranks call it together.
/// throws: Error after `timeout` seconds, or if a host has no name
std::vector<int> hosts_of_ranks(Transport& transport, double timeout);

}  // namespace plangrad::parallel
