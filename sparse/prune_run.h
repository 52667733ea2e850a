// PruneRun: decides when a run is pruned and by which method, and keeps its progress.
// Not here: the methods themselves (pruning.h), and flags (examples/programs/prune_flags.h).
// Chapter 11.
#pragma once

#include "parallel/session/session.h"
#include "sparse/pruning.h"

namespace plangrad::sparse {

// [snippet methods]
/// When and how a run is pruned, with `after`, `every` and `until` in updates:
///   magnitude, global, random   once, after `after`
///   gradual                     every `every` from `after` to `until`, more each time
///   lottery                     keeps a copy of the weights after `after`; then, every `every`, a
///                               round prunes 20% of the elements left and restores the others from
///                               the copy, until the fraction is reached
///   early-bird                  draws masks every `every` from `after` on, until one is a ticket
/// All but `global` and `random` prune the smallest elements of each parameter; `global` prunes the
/// smallest of all parameters together.
// [end snippet]
struct PruneSettings {
  double fraction = 0.9;
  std::string method = "magnitude";
  bool samo = false;    ///< store only the kept elements; otherwise zeros, too
  bool sparse = false;  ///< compute linear layers, too, with the kept elements only
  bool all = false;     ///< prune embeddings, biases and norms, too
  int after = 0, every = 1, until = 1;
  std::uint64_t seed = 1337;  ///< seed of random masks
};

inline const std::vector<std::string> prune_methods{"magnitude", "global",  "random",
                                                    "gradual",   "lottery", "early-bird"};
/// The number of rounds after which a lottery reaches the fraction.
int lottery_rounds(double fraction);

class PruneRun : public AskingObserver<Nothing, std::string> {
 public:
  explicit PruneRun(const PruneSettings& settings) : settings_(settings) {}

  static constexpr int never = Border::never;
  int next_pruning(int steps) const;
  nlohmann::json maybe_prune(Engine& engine, const Plan& like, int steps);

  const char* name() const override { return "pruning"; }
  void resume(const Checkpoint& checkpoint, SessionRank& rank) override;
  void save(Saving& saving) override;
  std::string lacks(int updates) const override;
  void ready(Lead& lead) override;
  Border next_border(int done) const override { return {next_pruning(done + 1), name()}; }
  void plan_ended(Lead& lead, const PlanEnd& plan) override;

 private:
  std::string carry_out(SessionRank& rank, const Nothing&) override;
  void prune_all_ranks(Lead& lead);
  nlohmann::json summary() const;
  double fraction_at(int steps) const;
  nlohmann::json prune(Engine& engine, const Plan& like, const Masks& own);
  void set_form(Engine& engine, const Plan& like, Masks all);

  bool pruned_ = false;  // in this session
  PruneSettings settings_;
  EarlyBird bird_;
  bool found_ = false;                        // whether a ticket was found
  int looked_ = -1;                           // updates when it was last time to prune
  std::map<std::string, std::int64_t> kept_;  // kept elements of the whole model's parameters
  std::int64_t elements_ = 0;                 // elements of these parameters before pruning
};

}  // namespace plangrad::sparse
