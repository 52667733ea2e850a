// SessionRank: one rank of a session: it makes its engine, as a checkpoint has it or anew, and
// carries out orders.
// Not here: who gives them, and when (session_lead.cpp). Chapter 05.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "parallel/session/orders.h"
#include "parallel/session/plans.h"
#include "parallel/session/pruner.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/pack.h"

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

/// throws: Error if hierarchical sums of gradients would be those of scatter-reduce-allgather in
///         every group, since its members are all on one host, or each on another
void check_hosts(const Plan& plan, const std::vector<int>& hosts);

class SessionRank {
 public:
  SessionRank(const Training& training, Transport& transport, DevicePtr device, RunData& data,
              const SessionSettings& settings);

  /// Has all ranks, this one among them, carry out an order; gives their answers by rank. For
  /// rank 0.
  template <class What>
  std::vector<typename What::Answer> order(const What& what) {
    broadcast_bytes(engine_.transport(), pack(Order(what)), settings_.engine.timeout);
    std::vector<typename What::Answer> answers;
    for (std::string& bytes : answer(what))
      answers.push_back(unpack<typename What::Answer>(std::move(bytes)));
    return answers;
  }
  /// Carries out what rank 0 orders, to the end.
  void follow();

  Engine& engine() { return engine_; }
  Pruner* pruner() { return pruner_.get(); }
  RunData& data() { return data_; }
  const SessionSettings& settings() const { return settings_; }
  /// Updates done before this session, and by now.
  int first() const { return first_; }
  int steps() const { return steps_; }
  /// Updates between choices of bits; 0: they are not chosen. And those that were chosen last.
  int bits_every() const { return bits_every_; }
  const Bits& bits() const { return bits_; }
  /// What a checkpoint has that this run can't use, for the user.
  const std::string& lost() const { return lost_; }
  /// A plan of the run that begins now.
  Plans::Shared like() const;

 private:
  Train::Answer carry_out(const Train& what);
  Validate::Answer carry_out(const Validate& what);
  Prune::Answer carry_out(const Prune&);
  Save::Answer carry_out(const Save&);
  SetBits::Answer carry_out(const SetBits& what);
  MeasureMemory::Answer carry_out(const MeasureMemory&);
  End::Answer carry_out(const End&) { return {}; }

  /// Everybody's answers, packed, on rank 0.
  template <class What>
  std::vector<std::string> answer(const What& what) {
    return gather_bytes(engine_.transport(), pack(carry_out(what)), settings_.engine.timeout);
  }
  void begin_pruned();
  Plan plan_at_work();

  Engine engine_;
  std::unique_ptr<Pruner> pruner_;
  RunData& data_;
  const SessionSettings& settings_;
  int first_ = 0, steps_ = 0;
  int bits_every_ = 0;
  Bits bits_;
  std::string lost_;
  std::optional<Peaks> peaks_before_;  // before it was pruned the last time, or went on so
};

}  // namespace paragrad::parallel
