// Engine: one rank of a run. It holds the rank's stages with their weights, and runs its row of
// plan after plan. It is the only training loop there is.
// Not here: what a row does, instruction by instruction (row_run.cpp). Chapter 05.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/collective.h"
#include "parallel/stage_runner.h"
#include "parallel/timeline.h"
#include "parallel/transport.h"
#include "parallel/verify.h"
#include "parallel/weight_store.h"

namespace paragrad::parallel {

/// What a rank has to tell of a plan that it ran.
struct RunResult {
  std::chrono::steady_clock::time_point begun;  ///< when all ranks had come to the plan
  std::map<int, double> losses;      ///< by microbatch; of those whose last stage is on this rank
  std::map<int, double> accuracies;  ///< the same in evaluations, if Training counts_right
  std::map<int, std::vector<double>> squares;  ///< by version, if the plan has no norms: of the
                                               ///< summed gradients that this rank counts, each
                                               ///< parameter's sum of squares, in Training::whole
  std::map<int, double> norms;    ///< by version, if it has: of the step's mean gradient
  std::map<int, double> stepped;  ///< by version: seconds after the plan's begin
  std::map<std::string, std::int64_t> bytes_sent;  ///< by message_kind(): "activations", ...
  std::vector<Record> records;                     ///< of this rank
};

/// throws: Error if the engine can't run the plan with this training on so many ranks
void check_fit(const Plan& plan, const Training& training, int ranks);

class Engine {
 public:
  struct Settings {
    AllReduce reduction = AllReduce::scatter_reduce;  ///< which adds in rank order
    double timeout = 60;                              ///< seconds that any wait may take
  };
  /// `training` and `transport` must outlive the engine.
  Engine(const Training& training, Transport& transport, DevicePtr device, Settings settings);

  /// Makes the stages of this rank's row, those that are not here yet with the model's
  /// first values.
  /// throws: Error if the plan does not fit the training or the transport
  void prepare(const Plan& plan);

  /// Runs this rank's row. All ranks call it together, with the same plan.
  /// throws: Error with the marked row: another rank is lost or late; a loss or gradient is not
  ///         finite, before this rank has made the step, and where the plan clips, before any rank
  ///         has; or the plan does not fit
  RunResult run(const VerifiedPlan& plan, Batches& batches);

  /// By stage; the tied one is number stages().
  std::map<int, WeightStore>& stores() { return stores_; }
  const Training& training() const { return training_; }
  Transport& transport() { return transport_; }
  const Settings& settings() const { return settings_; }
  const DevicePtr& device() const { return device_; }

 private:
  friend class RowRun;
  const ParameterList& parameters(int stage) const;

  const Training& training_;
  Transport& transport_;
  DevicePtr device_;
  Settings settings_;
  std::map<int, StageRunner> runners_;
  std::map<int, WeightStore> stores_;
  int plans_run_ = 0;
};

}  // namespace paragrad::parallel
