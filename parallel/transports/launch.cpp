// Threads run ranks, or give signs of life while a rank works. A message of unknown length travels
// as two: the length, then the bytes. Of the table of launchers, the first one whose rank is set
// counts: Slurm's variables are still there below an mpirun that it started. Chapter 04.
#include "parallel/transports/launch.h"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <map>
#include <mutex>

#include "parallel/transports/pack.h"
#include "parallel/transports/threads_transport.h"

namespace plangrad::parallel {

using autograd::Error;
using autograd::text;

namespace {

/// The reports of failed ranks, the first one first; equal ones once. A report that quotes another
/// one, as that of a rank stopped by it does, is shortened to the other rank's name.
class Reports {
 public:
  /// Notes the report before another rank can stop because of it, so that the cause comes first.
  void fail(Transport& transport, const std::string& what) {
    {
      std::lock_guard lock(mutex_);
      std::string line = report(transport.rank(), what);
      if (std::find(lines_.begin(), lines_.end(), line) == lines_.end())
        lines_.push_back(without_quotes(std::move(line)));
    }
    transport.fail(what);
  }
  void rethrow() const {
    std::string all;
    for (const std::string& line : lines_) all += (all.empty() ? "" : "\n") + line;
    PG_CHECK(all.empty(), all);
  }

 private:
  std::string without_quotes(std::string line) const {
    for (const std::string& other : lines_)
      if (std::size_t at = line.find(other); at != line.npos)
        line.replace(at, other.size(), other.substr(0, other.find(':')));
    return line;
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
};

void run_body(Transport& transport, const std::function<void(Transport&)>& body, Reports& reports) {
  try {
    body(transport);
  } catch (const std::exception& error) {
    reports.fail(transport, error.what());
  } catch (...) {
    reports.fail(transport, "an exception that is not a std::exception");
  }
}

/// Returns `; rank 2 was saving`, or nothing for rank -1.
std::string whereabouts(const Transport& transport, int peer) {
  if (peer < 0) return "";
  const Position position = transport.position(peer);
  if (!position.is_known()) return text("; rank ", peer, " was not heard of");
  const std::string in_plan = text("at instruction ", position.cell, " of its row");
  return text("; rank ", peer, " was ", place_of(transport, peer, in_plan));
}

/// Sends or receives the length of a message, and then its bytes.
void pass_bytes(Transport& transport, int peer, bool sends, std::string& bytes, double timeout) {
  const std::string what =
      sends ? text("rank ", peer, " to take a message") : text("a message of rank ", peer);
  auto pass = [&](void* data, std::int64_t count) {
    const Message message{peer, control_channel, data, count};
    auto request = sends ? transport.send(message) : transport.receive(message);
    wait_for(transport, *request, timeout, what, peer);
  };
  auto length = static_cast<std::int64_t>(bytes.size());
  pass(&length, sizeof length);
  bytes.resize(static_cast<std::size_t>(length));
  pass(bytes.data(), length);
}

}  // namespace

void run_ranks(int ranks, const std::function<void(Transport&)>& body, int capacity) {
  ThreadsWorld world(ranks, capacity);
  Reports reports;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      Transport& transport = world.transport(rank);
      try {
        threads.emplace_back([&] { run_body(transport, body, reports); });
      } catch (const std::exception& error) {  // the machine has no thread left
        reports.fail(transport, error.what());
      }
    }
  }  // joined
  reports.rethrow();
}

std::string report(int rank, const std::string& what) {
  std::string prefix = text("rank ", rank, ": ");
  return rank < 0 || what.starts_with(prefix) ? what : prefix + what;
}

AtWork::AtWork(Transport& transport, Work work)
    : transport_(transport), position_(transport.position(transport.rank())) {
  transport_.publish({.work = work});
  thread_ = std::thread([this] { give_signs_of_life(); });
}

AtWork::~AtWork() {
  over_ = true;
  transport_.wake();
  thread_.join();
  transport_.publish(position_);
}

/// Waits in the transport, which is enough: it then tells the others where this rank is.
void AtWork::give_signs_of_life() try {
  while (!over_) transport_.wait(1);
} catch (const std::exception&) {  // the next call of the transport throws it, too
}

std::string place_of(const Transport& transport, int rank, const std::string& in_plan) {
  static constexpr const char* work[] = {"", "", "preparing", "saving", "reporting"};
  constexpr double news = 1;  // seconds; ranks tell each other where they are more often
  const Work found = transport.position(rank).work;
  const bool is_in_row = found == Work::none || found == Work::computing;
  const std::string where = is_in_row ? in_plan : work[static_cast<std::size_t>(found)];
  const double age = transport.silence(rank);
  return age <= news ? where : text("last heard of, ", std::round(age), " s ago, ", where);
}

double Deadline::left() const {
  return seconds_ - std::chrono::duration<double>(Clock::now() - start_).count();
}

void Deadline::restart_if_progress(const Transport& transport) {
  constexpr double patience = 30;  // limits
  const Clock::time_point now = Clock::now();
  auto seconds_since = [now](auto then) {
    return std::chrono::duration<double>(now - then).count();
  };
  std::vector<Position> places;
  bool at_work = false;
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (rank == transport.rank()) continue;
    places.push_back(transport.position(rank));
    at_work |= places.back().work != Work::none && transport.silence(rank) < seconds_;
  }
  const bool was_stopped = seconds_since(looked_) > seconds_ / 2;
  if (std::exchange(places_, places) != places || was_stopped) moved_ = now;
  if (moved_ == now || (at_work && seconds_since(moved_) < patience * seconds_)) start_ = now;
  looked_ = now;
}

void wait_for_news(Transport& transport, Deadline& deadline,
                   const std::function<std::string()>& what, int peer) {
  if (auto failure = transport.failure())
    throw Error(text("rank ", transport.rank(), ": stopped waiting for ", what(), " because of ",
                     report(failure->rank, failure->what)));
  deadline.restart_if_progress(transport);
  if (deadline.left() > 0) return transport.wait(deadline.longest_wait());
  throw Error(text("rank ", transport.rank(), ": waited ", deadline.seconds(), " s for ", what(),
                   whereabouts(transport, peer)));
}

void wait_for(Transport& transport, Request& request, double seconds, const std::string& what,
              int peer) {
  Deadline deadline(seconds);
  while (!request.done())
    wait_for_news(
        transport, deadline, [&] { return what; }, peer);
}

std::vector<std::string> gather_bytes(Transport& transport, std::string bytes, double timeout) {
  if (transport.rank() != 0) {
    pass_bytes(transport, 0, true, bytes, timeout);
    return {};
  }
  std::vector<std::string> all{std::move(bytes)};
  for (int peer = 1; peer < transport.size(); ++peer)
    pass_bytes(transport, peer, false, all.emplace_back(), timeout);
  return all;
}

std::string broadcast_bytes(Transport& transport, std::string bytes, double timeout) {
  if (transport.rank() != 0) pass_bytes(transport, 0, false, bytes, timeout);
  for (int peer = 1; transport.rank() == 0 && peer < transport.size(); ++peer)
    pass_bytes(transport, peer, true, bytes, timeout);
  return bytes;
}

std::string broadcast_result(Transport& transport, double timeout, std::function<std::string()> f) {
  std::string result;  // behind a "+", or behind a "-" why there is none
  if (transport.rank() == 0) try {
      result = '+' + f();
    } catch (const std::exception& error) {
      result = text('-', error.what());
    }
  result = broadcast_bytes(transport, std::move(result), timeout);
  if (!result.starts_with('+')) throw SharedError(result.substr(1));
  return result.substr(1);
}

std::vector<std::string> all_gather_bytes(Transport& transport, std::string bytes, double timeout) {
  const auto all = gather_bytes(transport, std::move(bytes), timeout);
  return unpack<std::vector<std::string>>(broadcast_bytes(transport, pack(all), timeout));
}

// ---- processes and hosts ----

namespace {

struct Launcher {
  const char *name, *rank, *size, *local_rank, *local_size;
};

constexpr Launcher launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};

/// Reads a number; -1 if the launcher has no such variable, or has not set it.
int number(const Variable& variable, const char* name) {
  const char* value = name ? variable(name) : nullptr;
  if (!value) return -1;
  int result = 0;
  const auto [stop, error] = std::from_chars(value, value + std::strlen(value), result);
  PG_CHECK(error == std::errc() && *stop == 0 && stop != value && result >= -1,
           "environment variable ", name, " is '", value, "', expected a number");
  return result;
}

/// throws: Error unless 0 <= rank < size
void check_within(const char* rank_name, int rank, const char* size_name, int size) {
  PG_CHECK(rank >= 0 && rank < size, "environment variables ", rank_name, "=", rank, " and ",
           size_name, "=", size, " contradict each other; expected a rank from 0 to size - 1");
}

}  // namespace

std::string without_ranks(const Variable& variable) {
  std::string command = "env";
  for (const Launcher& launcher : launchers)
    if (variable(launcher.rank)) command += text(" -u ", launcher.rank);
  return command;
}

std::optional<RankEnvironment> rank_environment(const Variable& variable) try {
  bool batch_script = variable("SLURM_JOB_ID") && !variable("SLURM_STEP_ID");
  for (const Launcher& launcher : launchers) {
    if (!variable(launcher.rank)) continue;
    if (std::string(launcher.name) == "Slurm" && batch_script) continue;
    PG_CHECK(variable(launcher.size), "environment variable ", launcher.rank, " is set and ",
             launcher.size, " is not");
    RankEnvironment found{launcher.name,
                          launcher.rank,
                          number(variable, launcher.rank),
                          number(variable, launcher.size),
                          number(variable, launcher.local_rank),
                          number(variable, launcher.local_size)};
    check_within(launcher.rank, found.rank, launcher.size, found.size);
    if (found.local_rank != -1 && found.local_size != -1)
      check_within(launcher.local_rank, found.local_rank, launcher.local_size, found.local_size);
    if (found.size > 1) return found;
  }
  return std::nullopt;
} catch (const Error& error) {
  throw Error(text(error.what(), "; start this command, or its mpirun, without what a launcher ",
                   "left: ", without_ranks(variable), " ..."));
}

std::string host_name() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::vector<int> host_numbers(const std::vector<std::string>& names) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& name : names)
    hosts.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return hosts;
}

std::vector<int> hosts_of_ranks(Transport& transport, double timeout) {
  const std::string name = host_name();
  PG_CHECK(!name.empty(),
           "this host doesn't tell its name; say with --ranks-per-host which ranks share one");
  return host_numbers(all_gather_bytes(transport, name, timeout));
}

}  // namespace plangrad::parallel
