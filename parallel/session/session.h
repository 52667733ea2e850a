// Session: trains one run from its start, or from a checkpoint, to its end or a stop: plan after
// plan, with validations, checkpoints and reports between them. Rank 0 leads: what is to be done
// next is its order, which all ranks carry out together.
// Not here: flags, models and data, which a program brings. Chapter 05.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "parallel/engine/engine.h"
#include "parallel/session/exchange.h"
#include "parallel/session/plans.h"
#include "parallel/session/pruner.h"
#include "parallel/session/run_log.h"

namespace paragrad::parallel {

/// The data of a run. Each rank has its own.
class RunData {
 public:
  virtual ~RunData() = default;
  virtual Batches& training() = 0;
  /// All validation data, or a few batches of it that are spread evenly, as microbatches 0, 1, ...
  virtual Batches& validation(bool all) = 0;
  /// How many these are, and how much each one's mean loss counts.
  virtual std::vector<double> validation_weights(bool all) const = 0;
};

struct SessionSettings {
  std::filesystem::path out, resume;
  int steps = 1000, stop_after = 0, save_every = 0, evaluate_every = 0;
  bool quiet = false;
  Engine::Settings engine;       ///< hierarchical sums without hosts go by the hosts' names
  std::shared_ptr<Plans> plans;  ///< all ranks of this process have the same
  int steps_of_plan = 0;         ///< a plan's steps; 0: any number
  int reported_steps = 4;  ///< of the plan that the report shows, unless a plan's steps are given
  std::function<std::unique_ptr<Pruner>()> pruner;  ///< null: nothing is pruned
  std::string unit = "tokens";                      ///< what rates count
  std::int64_t units_per_step = 0;
  double flops_per_unit = 0;
  nlohmann::json run;     ///< what checkpoints say of the run
  nlohmann::json config;  ///< what summary.json says of it
  std::string title;      ///< of report.html
  std::string about;      ///< a line for the user at the beginning
  std::function<bool()> interrupted = [] { return false; };  ///< asked on rank 0
};

/// Steps of a plan that covers about a second, so that progress is seen and an interruption is
/// heard. A plan fills and drains: in a delayed schedule, whose updates overlap, one of slow steps
/// still has `fewest` of them, or the overlap would be gone. Others wait at each update anyway.
///   like: a plan of the schedule
int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest);

class Session {
 public:
  /// Every rank makes one, all with equal settings; `training`, `transport` and `data` must outlive
  /// it. Nothing has been written when it is there.
  /// throws: Error if the run is impossible
  Session(const Training& training, Transport& transport, DevicePtr device, RunData& data,
          const SessionSettings& settings);

  /// Returns whether the run has come to its end. All ranks call it together.
  bool train();

 private:
  // Rank 0's part.
  bool lead();
  void train_some(int last);
  void choose_bits(const std::vector<nlohmann::json>& answers);
  void order_pruning();
  ValidationResult validate(bool all);
  void save();
  void end();
  void report();
  double units_per_second() const;
  nlohmann::json figures(const Timeline& simulated) const;
  Report page(const Timeline& simulated) const;
  int next_steps(int last) const;
  bool is_recorded() const;
  /// Has all ranks, this one among them, carry out an order; their answers by rank.
  std::vector<nlohmann::json> order(const nlohmann::json& what);

  // Everybody's part.
  void follow();
  nlohmann::json carry_out(const nlohmann::json& what);
  nlohmann::json run_steps(int steps, bool recorded);
  nlohmann::json prune(const Plan& like, const Bits& bits);
  void begin_pruned();
  nlohmann::json measure_memory() const;

  bool due(int every, int before) const { return every > 0 && steps_ / every > before / every; }

  Engine engine_;
  std::unique_ptr<Pruner> pruner_;
  RunData& data_;
  const SessionSettings& settings_;
  int first_ = 0, steps_ = 0;  // done before this session, and by now
  double seconds_per_step_ = 0;
  std::optional<RunLog> log_;
  bool driven_ = false;  // whether messages decide the order of what ranks do
  int bits_every_ = 0;   // updates between choices of bits; 0: they are not chosen
  Bits bits_;            // that were chosen last
  std::string lost_;     // of a checkpoint, for the user
  std::string stopped_;  // "stopped" or "interrupted", if the run was
  std::optional<ValidationResult> validation_;     // at its end
  nlohmann::json peak_bytes_, peak_bytes_pruned_;  // the latter since the last pruning
  nlohmann::json peaks_before_;  // of this rank, before it was pruned the last time, or went on so
  std::map<std::pair<int, std::string>, std::int64_t> bytes_sent_;  // by rank and kind
  Plan recorded_plan_;                                              // the one that the report shows
  Timeline recorded_;
  std::vector<MemorySample> memory_;
};

}  // namespace paragrad::parallel
