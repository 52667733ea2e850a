// PruneRun: when a run is pruned on its way, by which method, and how far it has come.
// Not here: the methods themselves (pruning.h), and flags (examples/common/prune_flags.h).
// Chapter 11.
#pragma once

#include <string>
#include <vector>

#include "parallel/session/session.h"
#include "sparse/pruning.h"

namespace paragrad::sparse {

// [snippet methods]
/// When a run is pruned, with `after`, `every` and `until` in updates:
///   magnitude, global, random   once, after `after`
///   gradual                     every `every` from `after` to `until`, each with more pruned
///   lottery                     the weights after `after` are remembered; then, every `every`, a
///                               round prunes 20% of what is left and goes back to them, until the
///                               fraction is reached
///   early-bird                  every `every` from `after` on, until a ticket is found
/// All but `global` and `random` prune the smallest elements of each parameter; `global` those of
/// all parameters together.
// [end snippet]
struct PruneSettings {
  double fraction = 0.9;
  std::string method = "magnitude";
  bool samo = false;    ///< store the kept elements alone; else zeros, too
  bool sparse = false;  ///< compute with them alone, too
  bool all = false;     ///< embeddings, biases and norms, too
  int after = 0, every = 1, until = 1;
  std::uint64_t seed = 1337;  ///< of random masks
};

/// The names of methods.
inline const std::vector<std::string> prune_methods{"magnitude", "global",  "random",
                                                    "gradual",   "lottery", "early-bird"};
/// Rounds of a lottery.
int lottery_rounds(double fraction);

class PruneRun : public Pruner {
 public:
  explicit PruneRun(const PruneSettings& settings) : settings_(settings) {}

  void check(const ParameterList& whole) const override;
  int next_pruning(int steps) const override;
  nlohmann::json maybe_prune(Engine& engine, const Plan& like, int steps) override;
  void resume(const Checkpoint& checkpoint, Engine& engine, const Plan& like) override;
  std::vector<CheckpointFile> write(const std::filesystem::path& folder, Engine& engine,
                                    const Plan& plan, std::int64_t step) override;
  nlohmann::json summary() const override;

 private:
  double fraction_at(int steps) const;
  nlohmann::json prune(Engine& engine, const Plan& like, const Masks& own);
  void set_form(Engine& engine, const Plan& like, Masks all);

  PruneSettings settings_;
  EarlyBird bird_;
  bool found_ = false;                        // the ticket
  std::map<std::string, std::int64_t> kept_;  // by parameter, of the whole model
  std::int64_t elements_ = 0;                 // that these parameters have
};

}  // namespace paragrad::sparse
