// What tests of sessions share: a folder, data, plans that a test watches or spoils, settings,
// sessions on threads, and what a session does between two checkpoints without it.
// Not here: the model and its microbatches (support/small_run.h).
#pragma once

#include "autograd/cpu/cpu_backend.h"
#include "parallel/session/session.h"
#include "tests/parallel/support/small_run.h"
#include "tests/temporary_folder.h"

namespace plangrad::tests {

/// A new folder, which is gone when the test ends.
struct RunFolder {
  TemporaryFolder folder;
  std::string path = folder.path;

  std::filesystem::path operator/(const std::string& name) const {
    return std::filesystem::path(path) / name;
  }
};

class SmallData : public RunData {
 public:
  explicit SmallData(const GptConfig& config = small_gpt()) : batches_(config) {}
  Batches& training() override { return batches_; }
  Batches& validation(bool) override { return batches_; }
  std::vector<double> validation_weights(bool) const override { return {1, 1}; }

 private:
  SmallBatches batches_;
};

/// Two replicas if the schedule is "data", else two stages.
Plan plan_of(const std::string& schedule, int first, int steps);

/// Plans that a test sees, or spoils, as they are made.
class WatchedPlans : public Plans {
 public:
  using Make = std::function<Plan(int first, int steps)>;
  explicit WatchedPlans(Make make) : Plans("data", {}), make_(std::move(make)) {}
  explicit WatchedPlans(const std::string& schedule)
      : WatchedPlans([=](int first, int steps) { return plan_of(schedule, first, steps); }) {}

 private:
  Plan make(int first, int steps) const override { return make_(first, steps); }

  Make make_;
};

/// What the observers of a small session do: numbers of updates from one time to the next.
struct Watch {
  int evaluate_every = 250;
  double report_every = 30;               ///< seconds
  std::function<void()> saved = nullptr;  ///< called on rank 0 after each save
};
std::function<Observers()> observers_of(const Watch& watch = {});

/// Makes lists of one observer, whose arguments must outlive the run.
template <class Observer, class... Arguments>
std::function<Observers()> only(Arguments&... arguments) {
  return [&arguments...] {
    Observers all;
    all.push_back(std::make_unique<Observer>(arguments...));
    return all;
  };
}

/// A quiet run of two updates on two replicas.
SessionSettings settings_of(const RunFolder& folder);

/// Runs a session on each of the ranks, which are threads; `change` completes a rank's settings,
/// `afterwards` follows on each rank, and
/// `device` makes its device.
void run_sessions(
    const Training& training, const RunFolder& folder, int ranks,
    const std::function<void(int rank, SessionSettings&)>& change,
    const std::function<void(int rank)>& afterwards = [](int) {},
    const std::function<DevicePtr()>& device = cpu_device);

/// Runs a plan without a session, on from the checkpoint `from` if this names one, and saves the
/// checkpoint `to`; returns how many files the ranks wrote for it.
std::size_t run_and_save(const Training& training, const Plan& plan, Batches& batches,
                         const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace plangrad::tests
