// Stores: the weights and sums of every stage that a row touches: those that the rank keeps, and
// those that visit it while another rank keeps them (cyclic data parallelism, setting zero).
// Not here: the buffers (stage_buffers.h, weight_store.h). Chapters 05 and 08.
#pragma once

#include <map>

#include "parallel/engine/engine.h"

namespace paragrad::parallel {

class Stores {
 public:
  /// `engine` must outlive it.
  explicit Stores(Engine& engine) : engine_(engine) {}

  StageBuffers& at(int stage) {
    auto& kept = engine_.stores();
    if (auto found = kept.find(stage); found != kept.end()) return found->second;
    return visiting_.try_emplace(stage, engine_.training(), engine_.form(stage), engine_.device())
        .first->second;
  }
  /// A stage that this rank keeps.
  WeightStore& kept(int stage) { return engine_.stores().at(stage); }
  std::map<int, WeightStore>& kept() { return engine_.stores(); }

 private:
  Engine& engine_;
  std::map<int, StageBuffers> visiting_;  // by stage
};

}  // namespace paragrad::parallel
