// Delayed schedules need more than the newest weights to go on with the same numbers: a checkpoint
// holds all versions that are alive between plans.
// Chapter 07.
#include "parallel/state_files.h"

#include "parallel/lifetimes.h"

namespace paragrad::parallel {

// [snippet write_state]
std::vector<CheckpointFile> write_state(const std::filesystem::path& folder, Engine& engine,
                                        const Plan& plan, std::int64_t step) {
  std::vector<CheckpointFile> files;
  const auto ranks = holders(plan);
  for (auto& [stage, store] : engine.stores()) {
    if (ranks.at(stage).front() != engine.transport().rank()) continue;
    std::string ending = plan.stage_count() == 1 ? "" : text("_", stage);
    FlatBuffers versions;
    for (const auto& [version, weights] : store.versions())
      versions.emplace_back(version_name(store.newest() - version), weights);
    files.push_back(
        write_checkpoint_file(folder, "model" + ending, step, store.parameters(), versions));
    files.push_back(write_checkpoint_file(folder, "optimizer" + ending, step, store.parameters(),
                                          store.optimizer().state()));
  }
  return files;
}
// [end snippet]

void read_state(const Checkpoint& checkpoint, Engine& engine) {
  checkpoint.check_model(engine.training().whole);
  for (auto& [stage, store] : engine.stores()) {
    for (const auto& [version, weights] : store.versions())
      checkpoint.load_version(store.newest() - version, store.parameters(), weights);
    for (const auto& [name, buffer] : store.optimizer().state())
      checkpoint.load_state(name, store.parameters(), buffer);
  }
}

}  // namespace paragrad::parallel
