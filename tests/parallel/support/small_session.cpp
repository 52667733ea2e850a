#include "tests/parallel/support/small_session.h"

#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/file.h"
#include "parallel/observers/bit_choice.h"
#include "parallel/observers/run_record.h"
#include "parallel/observers/validation.h"
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
    all.push_back(std::make_unique<BitChoice>(watch.bits_every));
    all.push_back(std::make_unique<Validation>(watch.evaluate_every));
    all.push_back(std::move(record));
    return all;
  };
}

SessionSettings settings_of(const RunFolder& folder) {
  SessionSettings settings;
  settings.out = folder.path;
  settings.steps = 2;
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

}  // namespace plangrad::tests
