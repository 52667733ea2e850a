// Signals that ask a run to end: it saves after the plan under way, and ends with the signal's
// status. Not here: who asks whether one came (run_session.h). Chapter 15.
#pragma once

#include <csignal>

namespace plangrad::examples {

/// Signals by which users and batch systems end a run. SIGHUP is not among them: under nohup it is
/// ignored. Batch systems warn by SIGXCPU, SIGUSR1 or SIGUSR2; mpirun forwards the last two.
inline constexpr int stop_signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGUSR1, SIGUSR2};

/// Handles stop_signals, and SIGHUP unless it is ignored, from now on: until training begins they
/// end the process at once, and later so does a second signal of the same kind, but for SIGXCPU.
/// Ignores SIGPIPE and SIGXFSZ.
void handle_stop_signals();

/// From now on, as all ranks agree on the run, there is something to save. Any thread.
void training_begins();

/// Whether a signal prints how to get more time from mpirun, which kills this process a second
/// after it. Only a process that can still save has use for that.
void hint_at_kill(bool on);

/// The signal that asked the run to end; 0 if none did. Any thread.
int stopped_by();

/// Notes a signal that another rank's process received.
void record_stop(int signal);

}  // namespace plangrad::examples
