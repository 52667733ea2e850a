#include "tests/parallel/session/small_session.h"

#include <stdlib.h>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/profile/profiled_device.h"
#include "nn/checkpoint/file.h"
#include "parallel/session/silent_errors.h"
#include "parallel/session/validation.h"
#include "parallel/transports/launch.h"

namespace plangrad::tests {

RunFolder::RunFolder() { PG_CHECK(::mkdtemp(path.data()), "can't make a folder like ", path); }

Plan plan_of(const std::string& schedule, int first, int steps) {
  const bool data = schedule == "data";
  return make_plan(schedule, {.stages = data ? 1 : 2,
                              .width = data ? 2 : 1,
                              .microbatches = data ? 1 : 2,
                              .steps = steps,
                              .first = first});
}

std::function<Observers()> observers_of(int evaluate_every, int check_every) {
  return [=] {
    Observers all;
    all.push_back(std::make_unique<SilentErrors>(check_every));
    all.push_back(std::make_unique<Validation>(evaluate_every));
    return all;
  };
}

SessionSettings settings_of(const RunFolder& folder) {
  SessionSettings settings;
  settings.out = folder.path;
  settings.steps = 2;
  settings.quiet = true;
  settings.observers = observers_of(250);
  settings.engine.timeout = 20;
  settings.pages.report = [](const std::string&, const std::string& data) { return data; };
  return settings;
}

Training small_training(int stages) {
  Training training(gpt(small_gpt(false)), stages);
  training.clip = 0;
  return training;
}

void run_sessions(const Training& training, const RunFolder& folder, int ranks,
                  const std::function<void(int rank, SessionSettings&)>& change,
                  const std::function<void(int rank)>& afterwards) {
  run_ranks(ranks, [&](Transport& transport) {
    set_compute_threads(1);
    SmallData data;
    SessionSettings settings = settings_of(folder);
    change(transport.rank(), settings);
    const DevicePtr device = settings.profile ? profiled_device(cpu_device()) : cpu_device();
    run_session(training, transport, device, data, settings);
    afterwards(transport.rank());
  });
}

nlohmann::json data_in_page(const std::filesystem::path& path) {
  return nlohmann::json::parse(nn::read_file(path));
}

}  // namespace plangrad::tests
