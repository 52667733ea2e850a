// One rank of a scalar world: the numbers that it has, by name, and what instructions do to them.
// Not here: who gets on when, and the messages' ways (scalar_world).
#pragma once

#include <memory>
#include <optional>

#include "parallel/plan/plan.h"
#include "tests/parallel/support/scalar_model.h"
#include "tests/parallel/support/scalar_world.h"

namespace plangrad::tests {

struct ScalarNumber {
  bool ready = false;
  double value = 0;
  int gradients = 0;  ///< in a sum
};
/// A number that is there, or that a message will bring.
using Promise = std::shared_ptr<ScalarNumber>;

class ScalarRank {
 public:
  /// tied_versions: that uses of the tied number read, by microbatch
  ScalarRank(const parallel::Plan& plan, int number, const std::map<int, int>& tied_versions,
             ScalarOutcome& outcome);

  /// Forward, backward, step or drop; or false if an input has not arrived.
  bool compute(const parallel::Instruction& x);

  /// The value that a send takes along; a value that moves is gone at once.
  Promise send(const parallel::Instruction& x);
  /// Stores the value that a recv gets.
  Promise receive(const parallel::Instruction& x);
  /// The sum that the fold makes, once both parts are there.
  Promise fold(const parallel::Instruction& x);
  bool finish_folds();
  /// The values, by stage, that this rank brings to a meeting that will leave `result` here.
  std::map<int, Promise> enter(const parallel::Instruction& x, const Promise& result);

  /// Whether a sum holds every gradient of its step.
  static bool complete(const parallel::Plan& plan, int stage, const Promise& sum);

 private:
  using Name = std::pair<int, int>;  // stage, and microbatch or version
  using Values = std::map<Name, Promise>;
  struct Pass {  // of a microbatch, forward and back through a stage
    double input = 0;
    bool kept = true;               // or the forward must run again
    std::optional<double> dy = {};  // once the input part of the backward is done
  };
  struct Fold {
    Promise arrived, own, result;
  };

  bool forward(const parallel::Instruction& x);
  bool backward(const parallel::Instruction& x);
  bool step(const parallel::Instruction& x);
  bool drop(const parallel::Instruction& x);
  bool read(const parallel::Instruction& x, ScalarStage& stage);
  void add(int stage, int micro, double gradient);
  bool is_tied(int stage) const;
  Promise whole_weights(int stage, int version, const parallel::Instruction& x);

  const parallel::Plan& plan_;
  int number_;
  const std::map<int, int>& tied_versions_;
  ScalarOutcome& outcome_;
  Values activations_, gradients_, turns_, weights_;
  Values sums_;                   // this rank's own, by version
  Values arrived_;                // sums, by microbatch
  std::map<int, Promise> norms_;  // by version
  std::map<Name, bool> shard_;    // of weights: not whole
  std::map<Name, Pass> passes_;
  std::map<int, ScalarOptimizer> optimizers_;
  std::vector<Fold> folds_;
};

/// throws: std::runtime_error
void require(bool condition, const parallel::Instruction& x, const char* what);

}  // namespace plangrad::tests
