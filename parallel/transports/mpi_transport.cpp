// Requests, and the transport, which tests them in turn and sleeps in between, because a blocked
// MPI call would burn a core. Not here: positions and failures (mpi_board). Chapter 04.
#include "parallel/transports/mpi_transport.h"

#if PLANGRAD_MPI
#include <sched.h>

#include <climits>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <iostream>
#include <utility>

#include "parallel/transports/launch.h"
#include "parallel/transports/mpi_board.h"

namespace plangrad::parallel {
namespace {

using autograd::text;

constexpr double farewell_seconds = 2;  // for the others to stop too
constexpr double leave_seconds = 60;    // for the others to finish

using Handler = void (*)(int);
std::atomic<bool> sigterm_came = false;  // global: a signal handler has no object
std::atomic<Handler> handler_before = nullptr;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<Handler>::is_always_lock_free);

/// The seconds between SIGTERM and SIGKILL of mpirun, which passes its settings on.
double seconds_to_kill() {
  for (const char* name : {"OMPI_MCA_odls_base_sigkill_timeout",  // Open MPI 4, and 5:
                           "PRTE_MCA_odls_base_sigkill_timeout"})
    if (const char* seconds = std::getenv(name)) return std::max(1.0, std::atof(seconds));
  return 1;
}

/// Whether the status of a message that is too long has its length; MPICH leaves another number.
#ifdef OPEN_MPI
constexpr bool tells_length = true;
#else
constexpr bool tells_length = false;
#endif

class MpiRequest : public Request {
 public:
  using Pending = std::vector<MpiRequest*>;

  MpiRequest(MpiBoard& board, Pending& pending, const Message& message, bool receives)
      : board_(board), pending_(pending), message_(message), receives_(receives) {
    check_message(board, message);
    PG_CHECK(message.bytes <= INT_MAX, "rank ", board.rank(), ": a message of ", message.bytes,
             " bytes; MPI takes up to 2 GiB at once, so cut the model into more stages");
    int bytes = static_cast<int>(message.bytes);
    int code = receives ? MPI_Irecv(message.data, bytes, MPI_BYTE, message.peer, message.channel,
                                    board.comm(), &request_)
                        : MPI_Isend(message.data, bytes, MPI_BYTE, message.peer, message.channel,
                                    board.comm(), &request_);
    check_mpi(code, receives ? "MPI_Irecv" : "MPI_Isend");
    pending.push_back(this);
  }
  ~MpiRequest() override {
    if (done_) return;
    std::erase(pending_, this);
    if (receives_) MPI_Cancel(&request_);
    MPI_Request_free(&request_);
  }
  MpiRequest(const MpiRequest&) = delete;

  bool done() override {
    if (!done_) test();
    board_.drive_now_and_then();
    PG_CHECK(error_.empty(), error_);
    return done_;
  }

  /// Asks MPI; true if the request has ended since the last call.
  bool test() {
    int flag = 0;
    MPI_Status status;
    int code = MPI_Test(&request_, &flag, &status);
    if (code == MPI_SUCCESS && !flag) return false;
    done_ = true;
    std::erase(pending_, this);
    check_size(code, status);
    return true;
  }

 private:
  void check_size(int code, const MPI_Status& status) {
    int kind = MPI_SUCCESS, bytes = static_cast<int>(message_.bytes);
    if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
    bool too_long = kind == MPI_ERR_TRUNCATE;
    if (receives_ && (code == MPI_SUCCESS || (too_long && tells_length)))
      MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (too_long || (code == MPI_SUCCESS && bytes != message_.bytes)) {
      bool known = !too_long || bytes > message_.bytes;
      error_ = text("rank ", message_.peer, " sent ", known ? text(bytes, " bytes") : "more",
                    " on channel ", message_.channel, ", but rank ", board_.rank(), " expects ",
                    message_.bytes, " bytes; both must run the same plan");
    } else if (code != MPI_SUCCESS) {
      error_ =
          text("rank ", board_.rank(), ": lost rank ", message_.peer, ": ", mpi_error_text(code));
    }
  }

  MpiBoard& board_;
  Pending& pending_;
  Message message_;
  bool receives_, done_ = false;
  std::string error_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiTransport : public MpiBoard {
 public:
  using MpiBoard::MpiBoard;
  const char* name() const override { return "mpi"; }

  std::unique_ptr<Request> send(const Message& message) override {
    return std::make_unique<MpiRequest>(*this, pending_, message, false);
  }
  std::unique_ptr<Request> receive(const Message& message) override {
    return std::make_unique<MpiRequest>(*this, pending_, message, true);
  }

  void wait(double seconds) override {
    const Deadline limit(seconds);
    for (int round = 0; !woken_.exchange(false) && !progress(); ++round) {
      if (limit.left() <= 0) return;
      if (round < 50)
        sched_yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(round < 500 ? 20 : 50));
    }
  }
  void wake() override { woken_ = true; }
  std::optional<Failure> failure() override {
    drive_now_and_then();
    if (!failures().empty()) return failures().front();
    if (const int lost = silent_rank(); lost >= 0)
      return Failure{-1, text("told to stop (SIGTERM), and rank ", lost, " has fallen silent")};
    return std::nullopt;
  }

 private:
  /// After SIGTERM, a rank that no note came of for half of the time that is left; else -1. Without
  /// one, the user interrupts the job, and all can still save.
  int silent_rank() const {
    static const double longest = seconds_to_kill() / 2;
    for (int other = 0; sigterm_came && other < size(); ++other)
      if (other != rank() && silence(other) > longest) return other;
    return -1;
  }

  /// Whether there is news: a request has ended, or another rank has failed.
  bool progress() {
    drive();
    std::size_t known = failures().size() + (silent_rank() >= 0);
    bool news = std::exchange(known_failures_, known) != known;
    for (std::size_t i = pending_.size(); i-- > 0;) news |= pending_[i]->test();
    return news;
  }

  MpiRequest::Pending pending_;
  std::atomic<bool> woken_ = false;
  std::size_t known_failures_ = 0;
};

/// Open MPI asks the receiver before it sends more than 64 KiB over TCP, and on a busy link the
/// question and its answer wait behind other data. The pieces of collectives are larger, so this
/// raises the limit. Between ranks of a host (vader, later named sm) the question takes longer than
/// a copy, so this raises their limit of 4 KiB, too. A value that the user has set stays.
void raise_eager_limits() {
  for (const char* most : {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_max_send_size"})
    setenv(most, "524288", 0);
  for (const char* most : {"OMPI_MCA_btl_vader_eager_limit", "OMPI_MCA_btl_sm_eager_limit"})
    setenv(most, "32768", 0);
}

/// Tells the others, gives them two seconds to stop too, so that each can say what it waited for,
/// and ends the process. MPI_Finalize is left out: it would wait for the others.
[[noreturn]] void abandon(MpiTransport& transport, const std::string& what, int status) {
  transport.fail(what);
  std::cout << std::flush;
  std::fflush(nullptr);
  const Deadline farewell(farewell_seconds);
  do {
    transport.wait(0.01);
    bool alone = static_cast<int>(transport.failures().size()) >= transport.size() - 1;
    if ((alone || sigterm_came) && transport.notes_have_left()) break;
  } while (farewell.left() > 0);
  std::_Exit(status);
}

/// MPI_Init waits for all ranks of a job and has no deadline of its own. A watch that lives for
/// `seconds` says so on stderr and ends the process with status 1; mpirun then ends other ranks.
std::jthread watch_join(double seconds) {
  return std::jthread([seconds](const std::stop_token& joined) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any over;
    over.wait_for(lock, joined, std::chrono::duration<double>(seconds), [] { return false; });
    if (joined.stop_requested()) return;
    std::cerr << text(
        "waited ", seconds, " s for the other ranks to join (MPI_Init): one of them ",
        "has not started, or the hosts can't reach each other; see what mpirun says\n");
    std::_Exit(EXIT_FAILURE);
  });
}

MPI_Comm join(double seconds) {
  int ready = 0, provided = 0, size = 0;
  MPI_Initialized(&ready);
  PG_CHECK(!ready, "MPI was started before; a process is one rank and has one MpiWorld");
  std::optional<RankEnvironment> launched = rank_environment();
  raise_eager_limits();
  {
    const std::jthread watch = watch_join(seconds);
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
              "MPI_Init_thread");
  }
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::string wrong;
  if (provided < MPI_THREAD_SERIALIZED)
    wrong = "this MPI does not let threads take turns (MPI_THREAD_SERIALIZED); use another build";
  else if (launched && launched->size != size)
    wrong = text(launched->launcher, " started this process as one of ", launched->size,
                 " ranks, but the MPI that plangrad was built with knows of ", size,
                 "; start it with the mpirun of that MPI: ", without_ranks(), " mpirun -n ...");
  if (!wrong.empty()) {
    MPI_Finalize();
    throw autograd::Error(wrong);
  }
  MPI_Comm comm;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  // MPI_Test names no communicator: MPI 3 looks at the world's handler then, MPI 4 at self's.
  for (MPI_Comm each : {comm, MPI_COMM_WORLD, MPI_COMM_SELF})
    MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
  return comm;
}

}  // namespace

MpiWorld::MpiWorld(double seconds) : transport_(new MpiTransport(join(seconds))) {}

MpiWorld::~MpiWorld() {
  auto& transport = static_cast<MpiTransport&>(*transport_);
  MPI_Comm comm = transport.comm();
  MPI_Request barrier = MPI_REQUEST_NULL;
  bool leaving = false;
  Deadline deadline(leave_seconds);
  // The last notes must be read: a rank enters the barrier once its own have left.
  while (!leaving || !has_ended(barrier)) {
    if (deadline.left() <= 0)
      std::cerr << text("rank ", transport.rank(), ": waited ", leave_seconds,
                        " s for all ranks to end; leaving without them\n");
    if (deadline.left() <= 0 || std::uncaught_exceptions() || transport.failed() ||
        transport.failure()) {
      transport_.release();  // MPI may still write into it
      return;
    }
    if (!leaving && transport.notes_have_left()) {
      transport.fall_silent();
      MPI_Ibarrier(comm, &barrier);
      leaving = true;
    }
    transport.wait(0.001);
  }
  transport.stop_listening();
  MPI_Comm_free(&comm);
  MPI_Finalize();
}

void MpiWorld::run(const std::function<void(Transport&)>& body, const Reporter& reporter) {
  std::string what;
  int status = 1;
  try {
    return body(transport());
  } catch (const std::exception& error) {
    what = error.what();
    const std::string line = report(transport().rank(), what);
    reporter ? void(status = reporter(line, error)) : void(std::cerr << line + '\n');
  }
  abandon(static_cast<MpiTransport&>(*transport_), what, status);
}

void MpiWorld::stop_on_sigterm() {
  struct sigaction action = {};
  action.sa_handler = [](int number) {
    sigterm_came = true;
    if (const Handler before = handler_before) before(number);
  };
  // A second one ends the process as usual. The handler runs on the thread's alternate stack, if it
  // has one: a product of oneDNN's keeps something else in the stack pointer.
  action.sa_flags = SA_RESETHAND | SA_RESTART | SA_ONSTACK;
  struct sigaction before;
  sigaction(SIGTERM, &action, &before);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    handler_before = before.sa_handler;
}

}  // namespace plangrad::parallel

#else  // without MPI: an error that says how to get it
namespace plangrad::parallel {

MpiWorld::MpiWorld(double) {
  throw autograd::Error(
      "this plangrad was built without MPI; install it (Debian: libopenmpi-dev openmpi-bin) and "
      "build with -DPLANGRAD_MPI=ON, or use the threads transport");
}

// The rest is never reached: there is no MpiWorld.
MpiWorld::~MpiWorld() = default;
void MpiWorld::run(const std::function<void(Transport&)>&, const Reporter&) {}
void MpiWorld::stop_on_sigterm() {}

}  // namespace plangrad::parallel
#endif
