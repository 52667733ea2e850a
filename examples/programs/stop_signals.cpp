// A signal handler may only write atomic variables without a lock, and call write(). Chapter 15.
#include "examples/programs/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <tuple>

namespace plangrad::examples {

namespace {

std::atomic<int> received = 0;
std::atomic<bool> training = false;
std::atomic<bool> hints = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  received = signal;
  std::signal(signal, training && signal == SIGXCPU ? SIG_IGN : SIG_DFL);  // it comes each second
  if (!training) return void(std::raise(signal));
  constexpr char line[] =
      "interrupted: the run saves after the plan under way, but mpirun kills it in a second; to "
      "give it longer, export OMPI_MCA_odls_base_sigkill_timeout=30 (PRTE_MCA_... for Open MPI 5), "
      "or send mpirun SIGUSR1\n";
  if (hints && (signal == SIGINT || signal == SIGTERM || signal == SIGHUP))
    std::ignore = ::write(STDERR_FILENO, line, sizeof line - 1);
}

/// Handles it on the alternate stack. Returns what handled it before.
sighandler_t handle(int signal) {
  struct sigaction action = {}, before;
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(signal, &action, &before);
  return before.sa_handler;
}

}  // namespace

/// The system gives signals to the main thread, which may be in a product of oneDNN's: code that
/// has something else in the stack pointer, so that a handler on the usual stack overwrites the
/// heap.
void handle_stop_signals() {
  alignas(16) static std::byte memory[64 * 1024];
  const stack_t apart{memory, 0, sizeof memory};
  sigaltstack(&apart, nullptr);
  for (int signal : stop_signals) handle(signal);
  if (handle(SIGHUP) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // under nohup
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the output that goes does not end the run
  std::signal(SIGXFSZ, SIG_IGN);  // a save that exceeds a limit of files fails like on a full disk
}

void training_begins() { training = true; }

void hint_at_kill(bool on) { hints = on; }

int stopped_by() { return received; }

void record_stop(int signal) { received = signal; }

}  // namespace plangrad::examples
