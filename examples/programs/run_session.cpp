// Starts ranks as threads or processes, and makes their devices.
// Not here: how a run is laid out (run_layout.h), and signals (stop_signals.h). Chapter 05.
#include "examples/programs/run_session.h"

#include "autograd/cpu/cpu_backend.h"
#include "examples/profile/profiled_device.h"
#include "examples/programs/program.h"
#include "examples/programs/rank_device.h"
#include "examples/programs/run_folder.h"
#include "examples/programs/stop_signals.h"
#include "parallel/engine/pretended.h"
#include "parallel/engine/training.h"
#include "parallel/session/agreement.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/mpi_transport.h"
#include "parallel/transports/threads_transport.h"
#include "sparse/samo.h"

namespace plangrad::examples {

namespace fs = std::filesystem;

void check_resume(const RunFlags& run, const DataChecksums& data, bool other_validation) {
  if (!run.resumed) return;
  const nlohmann::json& before = run.resumed_run();
  PG_CHECK(before.value("data", nlohmann::json()) == data.training, "--resume: ", run.data.string(),
           " is not the ", run.kind_of_data, " that the run began with");
  const nlohmann::json known = before.value("validation", nlohmann::json());
  PG_CHECK(other_validation || known.is_null() || known == data.validation,
           "--resume: the run was validated on another ", run.kind_of_data, " than that of ",
           run.data.string());
  const std::int64_t step = run.resumed->manifest().step;
  PG_CHECK(step < run.steps, "--resume: the run has done ", step, " of its ",
           counted(run.steps, "update"), "; give it more with --steps");
}

RunSettings session_settings(const RunFlags& run, const RunLayout& layout, const Training& training,
                             nlohmann::json config, const DataChecksums& data,
                             const std::string& sizes) {
  RunSettings settings;
  static_cast<SessionScope&>(settings) = run;
  settings.engine.timeout = run.timeout;
  settings.engine.reduction = layout.reduction();
  settings.engine.hosts = layout.hosts();
  settings.plans = layout.plans();
  ObservedRun& observed = settings.observed;
  observed.rescue = std::make_shared<Rescue>(run);
  Pretended pretended;
  std::string left_out;
  try {
    pretended = run.pretend.found(training.stages(), layout.ranks(), run.ranks_per_host);
  } catch (const autograd::Error&) {
    if (run.asks({"--pretend-compute", "--pretend-link", "--pretend-machine", "--pretend-cards"}))
      throw;
    left_out = "; nothing is pretended, as this layout can't have the times of the one before";
  }
  for (const Link& link : pretended.topology.links)
    PG_CHECK(link.latency < run.timeout, "--pretend-link: a message takes ", link.latency,
             " s, and ranks give up after --timeout ", run.timeout, "; use a longer --timeout");
  if (pretended.computes()) settings.engine.prolong = prolong_to(pretended);
  if (pretended.computes() || pretended.links())
    observed.pretended = std::make_shared<Pretended>(pretended);
  settings.reported_steps = layout.reported_steps();
  if (run.prune.given() && run.prune.sparse) sparse::check_sparse(training.whole, run.prune.all);
  config["flags"] = layout.flags();
  observed.config = settings.run = config;
  observed.config["reduction"] = name_of(layout.reduction());  // chosen, if the flag says auto
  settings.run["program"] = run.program;
  settings.run["data"] = data.training;
  settings.run["validation"] = data.validation;
  if (!layout.own_plan().empty()) settings.run["plan"] = layout.own_plan();
  std::string layers;  // in the words of plan simulate
  for (int s = 0; training.stages() > 1 && s < training.stages(); ++s)
    layers +=
        text(s > 0 ? " " : "; layers of stages ", training.cuts[s], '-', training.cuts[s + 1] - 1);
  observed.about = text(run.other_rate(), training.whole.numel(), " parameters, ", sizes, layers,
                        "; ", layout.describe(), left_out);
  observed.gives_way = layout.gives_way() + left_out;
  observed.title = layout.title();
  settings.interrupted = settings.interrupted_here = [] { return stopped_by() != 0; };
  return settings;
}

namespace {

/// throws: Error if an adaptive codec chooses no bits in time to be used in a run from update
///         `first` to `last`, and none were `chosen` before
void check_period(const CodecSpec& spec, int first, int last, bool chosen) {
  if (!spec.kind().chooses_bits || chosen) return;
  const WhichCodecs with_bits = [](const CodecKind& kind) {  // that the user sets
    const decltype(CodecNumber::value) bits = &CodecSpec::bits;
    return std::ranges::count(kind.numbers, bits, &CodecNumber::value) > 0;
  };
  PG_CHECK(next_multiple(spec.period, first) < last, "--codec ", print(spec), ": bits are ",
           "chosen after each ", counted(spec.period, "update"), ", and this run ends after ", last,
           " with those that it began with; use ", codecs_to_use(with_bits, true),
           ", more --steps, or a shorter period: ", spec.name, ':', spec.bucket, ":N");
}

/// Checks before any rank starts what would stop all of them, and makes the network that they
/// pretend to have. `one_process`: all ranks share this run.
ReadyRun checked(const RunFlags& flags, ReadyRun run, bool one_process) {
  const int first = run.layout.first(), left = run.settings.steps - first;
  const int steps = std::max(1, run.settings.plans->fixed_steps());
  PG_CHECK(left % steps == 0, "--plan makes ", steps, " updates at a time, which does ",
           "not divide the ", left, " that remain");
  const Plans::Shared shared = run.layout.first_plan();
  const Plan& plan = shared->plan();
  const std::int64_t micros = (std::int64_t{run.settings.steps} + 1) * plan.per_step;
  PG_CHECK(micros < most_microbatches, "--steps ", run.settings.steps, " of ",
           counted(plan.per_step, "microbatch"), " each: a run has fewer than ", most_microbatches,
           " microbatches in all; give it fewer --steps");
  ObservedRun& observed = run.settings.observed;
  observed.codec = plan.codec;
  const Observers observers = run_observers(flags, observed);
  check_lengths(run.settings.plans->lengths(), Borders(run.settings, first, observers), first);
  run.settings.plans->check(first, left);
  check_fit(plan, run.training, run.layout.ranks());
  const std::vector<int>& hosts = run.settings.engine.hosts;
  if (!hosts.empty()) check_hosts(plan, hosts);
  const SessionScope& scope = run.settings;
  const bool has_bits = scope.resumed && scope.resumed_run().contains("bits");
  check_period(plan.codec, first, run.settings.steps, has_bits);
  if (observed.pretended) run.network = network_of(*observed.pretended, one_process);
  check_out(scope);
  if (scope.overwrite && scope.out != scope.resume) run.settings.given_up = INT64_MAX;
  return run;
}

/// Checks that losses can happen.
void check_losses(const RunFlags& flags, const ReadyRun& run) {
  if (flags.attempt.number > 0) return;  // of an elastic run, whose ranks the first session checked
  for (const PlannedLoss& loss : parse_losses(flags.lose)) {
    PG_CHECK(loss.rank < run.layout.ranks(), "--lose: there is no rank ", loss.rank,
             "; this layout has ", run.layout.ranks(), ", counted from 0");
    PG_CHECK(loss.update <= run.settings.steps, "--lose: update ", loss.update,
             " does not come; the run has ", run.settings.steps, " --steps");
    PG_CHECK(loss.update > run.layout.first(), "--lose: update ", loss.update, " is done; the run ",
             "continues after update ", run.layout.first());
  }
}

/// Gives the run a folder of its own, unless the user named one; the newest run that saved is then
/// runs/latest, and tells what gives way. `chosen`: the folder that rank 0 made, empty on rank 0.
/// throws: UsageError if rank 0 can't have the folder
void place(const RunFlags& flags, ReadyRun& run, const std::string& chosen) {
  RunSettings& settings = run.settings;
  usage([&] {
    if (settings.out.empty()) {
      settings.out = chosen.empty() ? new_run_folder(run.layout.name()) : fs::path(chosen);
      settings.observed.saved.push_back([](const auto& scope) { point_latest_to(scope.out); });
    }
  });
  const char* type = flags.type() == autograd::DType::bf16 ? ", in bf16"
                     : flags.dtype == "tf32"               ? ", with products in tf32"
                                                           : "";
  settings.observed.about += text(type, "; files go to ", settings.out.string());
  const std::string& gone = settings.observed.gives_way;
  if (flags.quiet && chosen.empty() && !gone.empty()) tell("warning: " + gone.substr(2));
}

/// Runs one rank's part of the training. Returns whether the run is complete.
/// `place`: the rank's number among the ranks of this host; `cap`: the bytes that it may hold.
bool train(const RunFlags& flags, const ReadyRun& run, Transport& real, int place,
           std::int64_t cap) {
  PlantedLoss planted(real, /*whole_process*/ std::string(real.name()) == "mpi");
  Transport& lossy = flags.lose.empty() ? real : planted;
  SessionSettings settings = run.settings;
  settings.observers = [&] {  // made as soon as all ranks agree
    training_begins();
    return run_observers(flags, run.settings.observed);
  };
  for (const PlannedLoss& loss : parse_losses(flags.lose))
    if (loss.rank == real.rank())
      settings.engine.prolong = losing(loss, planted, settings.engine.prolong);
  const std::unique_ptr<Transport> held = run.network ? run.network->around(lossy) : nullptr;
  Transport& inner = held ? *held : lossy;
  const std::unique_ptr<RunData> data =
      run_data(run.examples, run.layout.per_step(), run.layout.rows(), flags.batch);
  const DeviceKind& kind = device_kind(flags.device);
  DevicePtr device = kind.make(place, flags.cuda_graph, flags.dtype == "tf32");
  if (flags.profile) device = profiled_device(device);
  device->meter().set_cap(cap);
  // Wrap the transport for devices that have their own memory.
  const std::unique_ptr<Transport> outer =
      kind.transport(inner, device, flags.transport == "nccl", flags.timeout);
  return run_session(run.training, outer ? *outer : inner, device, *data, settings);
}

/// Runs `work`. If it fails, saves what the ranks of this process have left, and says so. A process
/// without rank 0 does that only if rank 0 was killed: a rank 0 that ends by itself has saved, or
/// knows why nothing may be saved.
void rescued(const ReadyRun& run, bool leads, const std::function<void()>& work) try {
  work();
} catch (const std::exception& error) {
  const RunSettings& settings = run.settings;
  const ObservedRun& observed = settings.observed;
  std::string news;
  if (leads || is_abandoned(settings.out))
    news = observed.rescue->save({settings, observed.unit, observed.units_per_step},
                                 run.training.learning_rate);
  if (!news.empty()) tell(news);
  if (observed.rescue->diverged()) throw Diverged(error.what());
  throw;
}

/// Calls what follows a complete run, while no other one writes to its folder.
void finished(const ReadyRun& run, const Finish& finish) {
  if (!finish) return;
  const SessionSettings& settings = run.settings;
  const auto lock = settings.lock ? settings.lock : std::make_shared<FolderLock>(settings.out);
  finish(settings.out);
}

/// Describes a session that has lost ranks to the elastic run around it.
RanksLost ranks_lost(const RunFlags& flags, const ReadyRun& run, const std::vector<int>& lost,
                     const std::string& what) {
  RanksLost result(what);
  result.planned = parse_losses(flags.lose);
  for (int rank : lost) {
    auto is_first = [&](const PlannedLoss& a, const PlannedLoss& b) {
      return std::pair(a.rank != rank, a.update) < std::pair(b.rank != rank, b.update);
    };
    result.lost.push_back(*std::ranges::min_element(result.planned, is_first));
  }
  result.ranks = run.layout.ranks();
  result.out = run.settings.out;
  result.first = run.layout.first();
  result.saved = std::max(result.first, run.settings.observed.rescue->newest_save(result.out));
  result.flags = run.layout.flags();
  return result;
}

/// Trains on threads of this process. Returns whether the run is complete.
bool train_on_threads(const RunFlags& flags, const Prepare& prepare, const Finish& finish) {
  if (const auto started = usage([] { return rank_environment(); })) {
    const std::string by_mpi = text("use mpirun -n ", started->size, ' ', flags.program, " ... ");
    throw SharedUsageError(
        text("this process is one of ", started->size, " that ", started->launcher, " started, as ",
             started->variable, " says; ", started->launcher == "torchrun" ? by_mpi : "add ",
             "--transport mpi, or start it alone: ", without_ranks(), ' ', flags.program, " ..."));
  }
  ReadyRun run = usage([&] {
    const int started = flags.transport == "mpi" ? 1 : 0;  // by mpirun -n 1
    ReadyRun ready = checked(flags, prepare(started), true);
    const int ranks = ready.layout.ranks(), most = flags.attempt.most_ranks;
    PG_CHECK(most == 0 || ranks <= most, "this layout takes ", ranks, " ranks, ", most,
             " are left");
    check_losses(flags, ready);
    device_kind(flags.device).prepare(ready.layout.ranks(), flags.transport == "nccl");
    return ready;
  });
  place(flags, run, "");
  usage([&] {  // processes lock it when they have agreed, and then know that all mean this folder
    if (!run.settings.lock) run.settings.lock = std::make_shared<FolderLock>(run.settings.out);
  });
  const int ranks = run.layout.ranks();
  const std::int64_t cap = flags.cap(ranks);
  bool complete = true;
  std::mutex mutex;
  std::vector<int> lost;  // ranks
  auto body = [&](Transport& transport) {
    set_compute_threads(std::max(1, compute_threads() / ranks));  // they share the cores
    try {
      bool end = train(flags, run, transport, transport.rank(), cap);
      if (transport.rank() == 0) complete = end;
    } catch (const RankLost&) {
      std::lock_guard lock(mutex);
      lost.push_back(transport.rank());
      throw;
    }
  };
  try {
    rescued(run, true, [&] {
      if (ranks > 1) return run_ranks(ranks, body);
      ThreadsWorld world(1);
      body(world.transport(0));
    });
  } catch (const std::exception& error) {
    if (flags.elastic && !lost.empty()) throw ranks_lost(flags, run, lost, error.what());
    throw;
  }
  if (complete) finished(run, finish);
  return complete;
}

/// Joins the job of mpirun. All of its processes find alike that they can't.
std::unique_ptr<MpiWorld> joined(const RunFlags& flags,
                                 const std::optional<RankEnvironment>& started) {
  return usage<SharedUsageError>([&] {
    PG_CHECK(started, "--transport mpi: this process was started alone; start several by ",
             "mpirun -n RANKS ", flags.program, " ..., or leave the flag out");
    constexpr double patience = 300;  // seconds; a large job starts slowly
    return std::make_unique<MpiWorld>(std::max(patience, flags.timeout));
  });
}

/// Gives all processes the folder that rank 0 has.
/// throws: SharedError if it can't have one
void place_alike(Transport& transport, const RunFlags& flags, ReadyRun& run) {
  const std::string folder = broadcast_result(transport, flags.timeout, [&] {
    place(flags, run, "");
    return run.settings.out.string();
  });
  if (transport.rank() != 0) place(flags, run, folder);
}

/// Trains as one of several processes. Returns whether the run is complete.
bool train_on_processes(const RunFlags& flags, const Prepare& prepare, const Finish& finish) {
  const auto started = usage([] { return rank_environment(); });
  const std::unique_ptr<MpiWorld> world = joined(flags, started);
  const int size = world->transport().size();
  MpiWorld::stop_on_sigterm();  // mpirun sends it when a rank is lost or the user interrupts
  ReadyRun run = usage<SharedUsageError>([&] {
    ReadyRun ready = checked(flags, prepare(size), false);
    check_losses(flags, ready);
    return ready;
  });
  bool complete = true;
  const auto body = [&](Transport& transport) {
    int here = std::max(1, started->local_size);  // ranks of this host share its cores
    int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    set_compute_threads(std::min(compute_threads(), std::max(1, cores / here)));
    const bool known = started->local_rank >= 0, leads = transport.rank() == 0;
    device_kind(flags.device).prepare(1, flags.transport == "nccl");
    place_alike(transport, flags, run);
    if (leads && known && started->launcher == "MPICH")
      std::cerr
          << "note: MPICH's mpirun kills all ranks as soon as one dies: none reports or saves "
             "then, and the newest save is what is left (--save-every)\n";
    auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
    if (leads && started->launcher == "Open MPI" && !is_set("OMPI_MCA_odls_base_sigkill_timeout") &&
        !is_set("PRTE_MCA_odls_base_sigkill_timeout"))
      hint_at_kill(true);
    const int seat = known ? started->local_rank : transport.rank();
    const int told = started->local_size > 0 ? started->local_size : flags.ranks_per_host;
    const std::int64_t cap = flags.cap(told > 0 ? std::min(told, size) : size);
    rescued(run, leads, [&] {
      const bool end = train(flags, run, transport, seat, cap);
      if (leads) complete = end;
    });
    // All end with one status, whichever of them a signal reached: MPICH's mpirun may lose rank 0's
    // if others end with 0.
    const std::string done = "complete", own = leads && complete ? done : text(stopped_by());
    const std::vector<std::string> all = all_gather_bytes(transport, own, flags.timeout);
    complete = all.front() == done;
    const auto stopped =
        std::ranges::find_if(all, [](const auto& signal) { return signal != "0"; });
    if (!complete) record_stop(stopped == all.end() ? 0 : std::stoi(*stopped));
    if (complete && leads) finished(run, finish);
  };
  world->run(body, [&](const std::string& report, const std::exception& error) {
    hint_at_kill(false);
    const bool is_shared = dynamic_cast<const SharedError*>(&error) != nullptr;
    if (!is_shared || world->transport().rank() == 0) tell_lines("", report);
    std::error_code none;  // rank 0 has saved: no other rank may find its lock abandoned
    if (run.settings.lock) fs::remove(run.settings.out / "plangrad.lock", none);
    return status_of(error);
  });
  return complete;
}

}  // namespace

int train_run(const RunFlags& run, const Prepare& prepare, const Finish& finish) {
  handle_stop_signals();
  const auto started = usage([] { return rank_environment(); });
  const std::string set = without_ranks();  // also by mpirun -n 1, which needs no messages
  const bool is_only = !started && (set.find("OMPI") != set.npos || set.find("PMI_") != set.npos);
  const bool processes =
      (run.transport == "mpi" && !is_only) || (run.transport == "nccl" && started);
  const bool complete =
      processes ? train_on_processes(run, prepare, finish) : train_on_threads(run, prepare, finish);
  return complete || stopped_by() == 0 ? 0 : 128 + stopped_by();
}

}  // namespace plangrad::examples
