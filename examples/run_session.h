// What training programs do around a session: ranks as threads or processes, signals, a resumed
// run's checkpoint. Not here: what a session does (session.h); a program's model and data.
// Chapter 05.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <thread>

#include "autograd/cpu/threads.h"
#include "examples/run_flags.h"
#include "examples/run_layout.h"
#include "parallel/engine/codec_fit.h"
#include "parallel/session/session.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/mpi_transport.h"
#include "parallel/transports/rank_environment.h"
#include "parallel/transports/threads_transport.h"

namespace paragrad::examples {

using namespace paragrad::parallel;

/// A run that can begin: what its ranks share, and how each one sees the data.
struct ReadyRun {
  Training training;
  SessionSettings settings;
  int ranks = 1;
  int first = 0;  ///< steps done before
  std::function<std::unique_ptr<RunData>()> data;
  std::int64_t memory_cap = 0;  ///< bytes of a rank; 0: any
};

/// How a program makes one; `started` ranks are there already (0: none).
using Prepare = std::function<ReadyRun(int started)>;

inline std::atomic<int> interrupted = 0;  // the signal's number; rank 0's thread reads it
static_assert(std::atomic<int>::is_always_lock_free, "or a signal handler must not write it");

/// Ends training after the present plan; a second signal ends the program.
inline void interrupt(int signal) {
  interrupted = signal;
  std::signal(signal, SIG_DFL);
}

/// Returns the steps done before. `data`: its checksum.
/// throws: Error if the run can't go on with this data, or is over
inline int check_resume(const RunFlags& run, const nlohmann::json& data) {
  if (run.resume.empty()) return 0;
  Checkpoint checkpoint(run.resume / "checkpoint");
  PG_CHECK(checkpoint.run().value("data", nlohmann::json()) == data,
           "--resume: ", run.data.string(), " is not the ", run.kind_of_data,
           " that the run began with");
  PG_CHECK(checkpoint.step() < run.steps, "--resume: the run has done ", checkpoint.step(),
           " of its ", run.steps, " steps; give it more with --steps");
  return static_cast<int>(checkpoint.step());
}

/// What flags and layout say; a program adds its model, data and unit.
inline SessionSettings session_settings(const RunFlags& run, const RunLayout& layout) {
  SessionSettings settings;
  settings.out = run.out;
  settings.resume = run.resume;
  settings.steps = run.steps;
  settings.stop_after = run.stop_after;
  settings.save_every = run.save_every;
  settings.evaluate_every = run.evaluate_every;
  settings.quiet = run.quiet;
  settings.engine.timeout = run.timeout;
  settings.engine.reduction =
      run.reduction == "nccl" ? AllReduce::by_transport : reductions().at(run.reduction);
  settings.engine.hosts = layout.hosts();
  settings.plan = [layout](int first, int steps) { return layout.plan(first, steps); };
  settings.steps_of_plan = layout.steps_of_plan();
  settings.reported_steps = layout.reported_steps();
  if (run.prune.given())
    settings.pruner = [found = run.prune.settings(run.steps, run.seed)] {
      return std::make_unique<sparse::PruneRun>(found);
    };
  settings.title = layout.title();
  settings.interrupted = [] { return interrupted != 0; };
  return settings;
}

/// What would stop every rank stops the program before there are any.
inline ReadyRun checked(ReadyRun run) {
  int some = std::max(1, run.settings.steps_of_plan), left = run.settings.steps - run.first;
  PG_CHECK(left % some == 0, "--plan makes ", some, " updates at a time, which does ",
           "not divide the ", left, " that are to be done");
  const Plan plan = run.settings.plan(run.first, some);
  check_fit(plan, run.training, run.ranks);
  const std::vector<int>& hosts = run.settings.engine.hosts;
  if (!hosts.empty()) check_hosts(plan, hosts);
  if (run.settings.pruner) run.settings.pruner()->check(run.training.whole);
  const std::filesystem::path& resumed = run.settings.resume;
  const bool has_bits =
      !resumed.empty() && Checkpoint(resumed / "checkpoint").run().contains("bits");
  check_period(plan.codec, run.first, run.settings.steps, has_bits);
  return run;
}

/// One rank's part of the run. Returns whether the run has come to its end.
/// `place`: the rank's number among those of this host.
inline bool train(const RunFlags& flags, const ReadyRun& run, Transport& inner, int place) {
  std::unique_ptr<RunData> data = run.data();
  const DevicePtr device = make_device(flags.device, place, flags.cuda_graph);
  device->meter().set_cap(run.memory_cap);
  std::unique_ptr<Transport> outer;  // where the device has a memory of its own
  if (const DeviceKind* kind = kind_of(flags.device))
    outer = kind->transport(inner, device, flags.transport == "nccl", flags.timeout);
  Transport& transport = outer ? *outer : inner;
  return Session(run.training, transport, device, *data, run.settings).train();
}

inline bool train_on_threads(const RunFlags& flags, const Prepare& prepare) {
  auto started = rank_environment();
  PG_CHECK(!started, "this process is one of ", started->size, " that ", started->launcher,
           " started; say --transport mpi, or start it alone");
  const ReadyRun run = checked(prepare(0));
  prepare_devices(flags.device, run.ranks, flags.transport == "nccl");
  bool complete = true;
  auto body = [&](Transport& transport) {
    set_compute_threads(std::max(1, compute_threads() / run.ranks));  // they share the cores
    bool end = train(flags, run, transport, transport.rank());
    if (transport.rank() == 0) complete = end;
  };
  if (run.ranks > 1) {
    run_ranks(run.ranks, body);
  } else {
    ThreadsWorld world(1);
    body(world.transport(0));
  }
  return complete;
}

inline bool train_on_processes(const RunFlags& flags, const Prepare& prepare) {
  auto started = rank_environment();
  PG_CHECK(started, "--transport mpi: this process was started alone; start several by ",
           "mpirun -n RANKS ", flags.program, " ..., or leave the flag out");
  PG_CHECK(flags.transport == "mpi" || flags.device != "emulator", "--transport nccl: the ",
           "emulator's NCCL joins threads of one process, and this process is one of ",
           started->size, "; use --transport mpi, or start it alone with --ranks");
  MpiWorld world;
  int size = world.transport().size();
  MpiWorld::stop_on_sigterm();  // by which mpirun says that a rank is lost, or it was interrupted
  bool complete = true;
  world.run([&](Transport& transport) {
    int here = std::max(1, started->local_size);  // ranks of this host share its cores
    int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    set_compute_threads(std::min(compute_threads(), std::max(1, cores / here)));
    const ReadyRun run = checked(prepare(size));
    const bool told = started->local_rank >= 0;
    prepare_devices(flags.device, told ? here : size, flags.transport == "nccl");
    complete = train(flags, run, transport, told ? started->local_rank : transport.rank());
  });
  return complete;
}

/// Trains; returns the program's exit status.
inline int train_run(const RunFlags& run, const Prepare& prepare) {
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  const bool processes = run.transport == "mpi" || (run.transport == "nccl" && rank_environment());
  const bool complete =
      processes ? train_on_processes(run, prepare) : train_on_threads(run, prepare);
  return complete || !interrupted ? 0 : 128 + interrupted;
}

}  // namespace paragrad::examples
