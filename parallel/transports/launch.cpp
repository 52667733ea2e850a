// Threads that are ranks, and messages of unknown length: the length first, then the bytes.
// Chapter 04.
#include "parallel/transports/launch.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>
#include <utility>

#include "autograd/error.h"
#include "parallel/transports/at_work.h"
#include "parallel/transports/channels.h"
#include "parallel/transports/pack.h"
#include "parallel/transports/threads_transport.h"

namespace paragrad::parallel {
namespace {

/// Reports of ranks that failed, the first one first; equal ones once. Who quotes another's report,
/// as those do who stop because of it, only names that rank.
class Reports {
 public:
  /// Notes the report before anybody can stop because of it: so the cause stands first.
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

/// `; rank 2 was saving`; nothing for rank -1.
std::string whereabouts(const Transport& transport, int peer) {
  if (peer < 0) return "";
  const Position position = transport.position(peer);
  if (!position.is_known()) return autograd::text("; rank ", peer, " was not heard of");
  std::string where = work_at(position);
  if (where.empty()) where = autograd::text("at instruction ", position.cell, " of its row");
  return autograd::text("; rank ", peer, " was ", age_of_news(transport, peer), where);
}

void send_bytes(Transport& transport, int peer, const std::string& bytes, double timeout) {
  std::string what = autograd::text("rank ", peer, " to take a message");
  std::int64_t length = static_cast<std::int64_t>(bytes.size());
  auto header = transport.send({peer, control_channel, &length, sizeof length});
  wait_for(transport, *header, timeout, what, peer);
  auto body = transport.send({peer, control_channel, const_cast<char*>(bytes.data()), length});
  wait_for(transport, *body, timeout, what, peer);
}

std::string receive_bytes(Transport& transport, int peer, double timeout) {
  std::string what = autograd::text("a message of rank ", peer);
  std::int64_t length = 0;
  auto header = transport.receive({peer, control_channel, &length, sizeof length});
  wait_for(transport, *header, timeout, what, peer);
  std::string bytes(static_cast<std::size_t>(length), '\0');
  auto body = transport.receive({peer, control_channel, bytes.data(), length});
  wait_for(transport, *body, timeout, what, peer);
  return bytes;
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
  std::string prefix = autograd::text("rank ", rank, ": ");
  return rank < 0 || what.starts_with(prefix) ? what : prefix + what;
}

void stop_if_failed(Transport& transport, const std::string& doing) {
  if (auto failure = transport.failure())
    throw autograd::Error(autograd::text("rank ", transport.rank(), ": stopped ", doing,
                                         " because of ", report(failure->rank, failure->what)));
}

std::string age_of_news(const Transport& transport, int rank) {
  constexpr double news = 1;  // seconds; ranks tell each other where they are more often than that
  double age = transport.silence(rank);
  return age <= news ? "" : autograd::text("last heard of, ", std::round(age), " s ago, ");
}

double Deadline::left() const {
  return seconds_ -
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Deadline::restart_if_progress(const Transport& transport) {
  std::vector<Position> places;
  for (int rank = 0; rank < transport.size(); ++rank)
    places.push_back(rank == transport.rank() ? Position() : transport.position(rank));
  if (std::exchange(places_, places) != places || others_at_work(transport, seconds_))
    start_ = std::chrono::steady_clock::now();
}

void wait_for_news(Transport& transport, Deadline& deadline, const std::string& what, int peer) {
  stop_if_failed(transport, "waiting for " + what);
  deadline.restart_if_progress(transport);
  double left = deadline.left();
  if (left > 0) return transport.wait(std::min(left, deadline.seconds() / 4));  // to look in time
  throw autograd::Error(autograd::text("rank ", transport.rank(), ": waited ", deadline.seconds(),
                                       " s for ", what, whereabouts(transport, peer)));
}

void wait_for(Transport& transport, Request& request, double seconds, const std::string& what,
              int peer) {
  Deadline deadline(seconds);
  while (!request.done()) wait_for_news(transport, deadline, what, peer);
}

std::vector<std::string> gather_bytes(Transport& transport, const std::string& bytes,
                                      double timeout) {
  if (transport.rank() != 0) {
    send_bytes(transport, 0, bytes, timeout);
    return {};
  }
  std::vector<std::string> all{bytes};
  for (int peer = 1; peer < transport.size(); ++peer)
    all.push_back(receive_bytes(transport, peer, timeout));
  return all;
}

std::string broadcast_bytes(Transport& transport, const std::string& bytes, double timeout) {
  if (transport.rank() != 0) return receive_bytes(transport, 0, timeout);
  for (int peer = 1; peer < transport.size(); ++peer) send_bytes(transport, peer, bytes, timeout);
  return bytes;
}

std::vector<std::string> all_gather_bytes(Transport& transport, const std::string& bytes,
                                          double timeout) {
  std::vector<std::string> all = gather_bytes(transport, bytes, timeout);
  return unpack<std::vector<std::string>>(broadcast_bytes(transport, pack(all), timeout));
}

}  // namespace paragrad::parallel
