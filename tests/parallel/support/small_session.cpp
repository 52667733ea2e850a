#include "tests/parallel/support/small_session.h"

#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/file.h"
#include "parallel/observers/run_record.h"
#include "parallel/observers/validation.h"
#include "parallel/session/saving.h"
#include "parallel/transports/launch.h"

namespace plangrad::tests {

Plan plan_of(const std::string& schedule, int first, int steps) {
  const bool data = schedule == "data";
  return make_plan(schedule, {.stages = data ? 1 : 2,
                              .width = data ? 2 : 1,
                              .microbatches = data ? 1 : 2,
                              .steps = steps,
                              .first = first});
}

namespace {

struct OnSaved : RunObserver {
  explicit OnSaved(std::function<void()> call) : call(std::move(call)) {}
  const char* name() const override { return "saved"; }
  void saved(Lead&, int) override { call(); }
  std::function<void()> call;
};

}  // namespace

std::function<Observers()> observers_of(const Watch& watch) {
  return [watch] {
    Observers all;
    auto log = std::make_unique<RunLog>(LogSettings{.quiet = true});
    auto record =
        std::make_unique<RunRecord>(*log, RecordSettings{.report_every = watch.report_every});
    all.push_back(std::move(log));
    if (watch.saved) all.push_back(std::make_unique<OnSaved>(watch.saved));
    all.push_back(std::make_unique<Validation>(watch.evaluate_every));
    all.push_back(std::move(record));
    return all;
  };
}

SessionSettings settings_of(const RunFolder& folder) {
  SessionSettings settings;
  settings.out = folder.path;
  settings.steps = 2;
  settings.plans = std::make_shared<WatchedPlans>("data");
  settings.observers = observers_of();
  settings.engine.timeout = 20;
  return settings;
}

void run_sessions(const Training& training, const RunFolder& folder, int ranks,
                  const std::function<void(int rank, SessionSettings&)>& change,
                  const std::function<void(int rank)>& afterwards,
                  const std::function<DevicePtr()>& device) {
  run_ranks(ranks, [&](Transport& transport) {
    set_compute_threads(1);
    SmallData data;
    SessionSettings settings = settings_of(folder);
    change(transport.rank(), settings);
    run_session(training, transport, device(), data, settings);
    afterwards(transport.rank());
  });
}

std::size_t run_and_save(const Training& training, const Plan& plan, Batches& batches,
                         const std::filesystem::path& from, const std::filesystem::path& to) {
  const VerifiedPlan verified = verify(plan);
  const int step = plan.first + plan.steps;
  std::mutex mutex;
  std::vector<CheckpointFile> files;
  run_ranks(plan.ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {.timeout = 20});
    engine.prepare(plan);
    if (!from.empty()) read_state(Checkpoint(from), engine);
    engine.run(verified, batches);
    std::vector<CheckpointFile> own;
    write_state(engine, plan, write_at_once(to, step, own));
    std::lock_guard lock(mutex);
    files.insert(files.end(), own.begin(), own.end());
  });
  commit_checkpoint(to, step, nlohmann::json::object(), files);
  return files.size();
}

}  // namespace plangrad::tests
