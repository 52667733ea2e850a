// train_gpt: trains a GPT on text, over one or many ranks. See --help; sample_gpt writes text with
// the result. Not here: flags (examples/gpt_run.h), data (examples/gpt_data.h), and what a run does
// between its first step and its last (parallel/session.h). Chapters 02 and 05.
#include <atomic>
#include <csignal>
#include <thread>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/threads.h"
#include "examples/gpt_data.h"
#include "examples/gpt_run.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/mpi_transport.h"
#include "parallel/transports/rank_environment.h"
#include "parallel/transports/threads_transport.h"

namespace {

using namespace paragrad::parallel;
using paragrad::examples::GptBatches;
using paragrad::examples::GptData;
using paragrad::examples::GptRun;

std::atomic<int> interrupted = 0;  // the signal's number; rank 0's thread reads it
static_assert(std::atomic<int>::is_always_lock_free, "or a signal handler must not write it");

/// Ends training after the present plan; a second signal ends the program.
void interrupt(int signal) {
  interrupted = signal;
  std::signal(signal, SIG_DFL);
}

/// What sample_gpt decodes with; null for token ids without a vocabulary.
nlohmann::json vocabulary_of(const TextData& data) {
  return data.vocabulary ? data.vocabulary->to_json() : nlohmann::json();
}

TextData load(GptRun& run) {
  TextData data = run.load_data();
  data.training.evaluation_windows(run.model.context);  // says now if a text is too short
  data.validation.evaluation_windows(run.model.context);
  run.model.vocabulary = data.training.vocabulary_size();
  run.model.tied = !run.untied;
  return data;
}

/// What would stop every rank stops the program before there are any.
void check_plan(const GptRun& run, const Training& training, int first) {
  int some = std::max(1, run.steps_of_plan());
  PG_CHECK((run.steps - first) % some == 0, "--plan makes ", some,
           " updates at a time, which does ", "not divide the ", run.steps - first,
           " that are to be done");
  check_fit(run.plan(first, some), training, run.ranks);
}

/// Returns the steps done before.
int check_resume(const GptRun& run, const TextData& data) {
  if (run.resume.empty()) return 0;
  Checkpoint checkpoint(run.resume / "checkpoint");
  PG_CHECK(checkpoint.run().value("vocabulary", nlohmann::json()) == vocabulary_of(data),
           "--resume: the data has another vocabulary than the run's; give it the same --data and ",
           "--vocab");
  PG_CHECK(checkpoint.run().value("data", nlohmann::json()) == data.training.checksum(),
           "--resume: ", run.data.string(), " is not the text that the run began with");
  PG_CHECK(checkpoint.step() < run.steps, "--resume: the run has done ", checkpoint.step(),
           " of its ", run.steps, " steps; give it more with --steps");
  return static_cast<int>(checkpoint.step());
}

std::string describe(const GptRun& run, const TextData& data, const Training& training) {
  int depth = run.ranks / run.parts.data_parallel;
  std::string ranks = run.ranks == 1 ? "one rank"
                                     : text(run.ranks, " ranks (", run.transport, "), ",
                                            run.parts.data_parallel, " x ", depth);
  std::string update =
      run.parts.schedule == "pipedream" && run.parts.microbatches > 1
          ? text("; every microbatch is an update, of ", run.rows() * run.per_step(), " sequences")
          : "";
  return text(
      training.whole.numel(), " parameters, a vocabulary of ", run.model.vocabulary, ", ",
      data.training.size(), " tokens to train on, ", data.validation.size(), " to validate; ",
      run.parts.plan_file.empty() ? run.parts.schedule : "a plan of yours", " on ", ranks, update);
}

SessionSettings settings_of(const GptRun& run, const TextData& data, const Training& training) {
  SessionSettings settings;
  settings.out = run.out;
  settings.resume = run.resume;
  settings.steps = run.steps;
  settings.stop_after = run.stop_after;
  settings.save_every = run.save_every;
  settings.evaluate_every = run.evaluate_every;
  settings.quiet = run.quiet;
  settings.engine.timeout = run.timeout;
  settings.plan = [run](int first, int steps) { return run.plan(first, steps); };
  settings.steps_of_plan = run.steps_of_plan();
  settings.tokens_per_step = run.rows() * run.per_step() * run.model.context;
  settings.flops_per_token = gpt_flops_per_token(run.model, run.model.context);
  settings.config = run.to_json();
  settings.run = run.to_json();
  settings.run["data"] = data.training.checksum();
  if (data.vocabulary) settings.run["vocabulary"] = vocabulary_of(data);
  settings.about = describe(run, data, training);
  settings.title =
      text("train_gpt: ", run.parts.schedule, ", ", run.ranks, run.ranks == 1 ? " rank" : " ranks");
  settings.interrupted = [] { return interrupted != 0; };
  return settings;
}

/// One rank's part of the run. Returns whether the run has come to its end.
bool train(const GptRun& run, const TextData& data, const Training& training,
           const SessionSettings& settings, Transport& transport) {
  GptBatches batches(data.training, training.seed, run.model.context, run.per_step(), run.rows());
  GptData view(data, batches, run.model.context, run.batch);
  return Session(training, transport, cpu_device(), view, settings).train();
}

/// Ranks of one host share its cores.
void share_cores(int ranks_here) {
  set_compute_threads(std::max(1, compute_threads() / ranks_here));
}

bool train_on_threads(GptRun run) {
  auto started = rank_environment();
  PG_CHECK(!started, "this process is one of ", started->size, " that ", started->launcher,
           " started; say --transport mpi, or start it alone");
  run.lay_out(0);
  TextData data = load(run);
  int first = check_resume(run, data);
  Training training = run.training();
  check_plan(run, training, first);
  SessionSettings settings = settings_of(run, data, training);
  bool complete = true;
  auto body = [&](Transport& transport) {
    share_cores(run.ranks);
    bool end = train(run, data, training, settings, transport);
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

bool train_on_processes(GptRun run) {
  auto started = rank_environment();
  PG_CHECK(started, "--transport mpi: this process was started alone; start several by ",
           "mpirun -n RANKS train_gpt ..., or leave the flag out");
  MpiWorld world;
  int size = world.transport().size();
  // mpirun's way to say that a rank is lost, or that it was interrupted itself.
  std::signal(SIGTERM, [](int) { MpiWorld::told_to_stop(); });
  bool complete = true;
  world.run([&](Transport& transport) {
    int here = std::max(1, started->local_size);
    int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    set_compute_threads(std::min(compute_threads(), std::max(1, cores / here)));
    run.lay_out(size);
    TextData data = load(run);
    int first = check_resume(run, data);
    Training training = run.training();
    check_plan(run, training, first);
    complete = train(run, data, training, settings_of(run, data, training), transport);
  });
  return complete;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a GPT on text, over one or many ranks. Writes metrics.jsonl, summary.json, "
      "trace.json, "
      "report.html and checkpoint/ under --out.",
      "train_gpt");
  GptRun run;
  run.add_flags(app);
  return paragrad::examples::run_program(app, [&] {
    run.parse(app, argc, argv);
    std::signal(SIGINT, interrupt);
    std::signal(SIGTERM, interrupt);
    bool complete = run.transport == "mpi" ? train_on_processes(run) : train_on_threads(run);
    return complete || !interrupted ? 0 : 128 + interrupted;
  });
}
