// Delayed schedules need more than the newest weights to go on with the same numbers: a checkpoint
// holds all versions that are alive between plans. Files hold whole buffers, so shards are put
// together before; whoever reads takes its shard of them.
// Chapters 07 and 09.
#include "parallel/state_files.h"

#include "parallel/collective_run.h"
#include "parallel/lifetimes.h"
#include "parallel/transports/at_work.h"

namespace paragrad::parallel {
namespace {

constexpr int channel = 1;  // a group's; plans that use it are over

/// A buffer for all of the stage.
Tensor whole_buffer(const WeightStore& store, DType dtype, const DevicePtr& device) {
  CategoryScope category(*device, Category::communication);
  return empty({store.parameters().numel()}, dtype, device);
}

Tensor own_window(const WeightStore& store, const Tensor& whole) {
  Range own = store.shard().range(whole.numel());
  return whole.window(own.begin, {own.size()});
}

// [snippet gathered]
/// Puts buffers together from the shards of all who hold the stage, one after the other. All of
/// them call it; those who don't keep the results free each at once.
FlatBuffers gathered(const FlatBuffers& shards, const WeightStore& store, Engine& engine,
                     const std::vector<int>& holders, bool keep) {
  const Collective steps =
      all_gather({engine.settings().reduction}, store.shard().member, store.shard().members);
  FlatBuffers result;
  for (const auto& [name, shard] : shards) {
    Tensor whole = whole_buffer(store, shard.dtype(), engine.device());
    whole.backend().copy(shard, own_window(store, whole));
    CollectiveRun run(steps, whole, holders, channel);
    finish(run, engine.transport(), engine.settings().timeout);
    if (keep) result.emplace_back(name, whole);
  }
  return result;
}
// [end snippet]

}  // namespace

// [snippet write_state]
std::vector<CheckpointFile> write_state(const std::filesystem::path& folder, Engine& engine,
                                        const Plan& plan, std::int64_t step) {
  std::vector<CheckpointFile> files;
  const auto ranks = holders(plan);
  for (auto& [stage, store] : engine.stores()) {
    const bool writes = ranks.at(stage).front() == engine.transport().rank();
    auto write = [&, &stage = stage, &store = store](std::string stem, FlatBuffers buffers,
                                                     bool sharded) {
      if (sharded)  // chapter 09
        buffers = gathered(buffers, store, engine, ranks.at(stage), writes);
      if (plan.stage_count() > 1) stem += text("_", stage);
      if (!writes) return;
      AtWork saving(engine.transport(), Work::saving);
      files.push_back(write_checkpoint_file(folder, stem, step, store.parameters(), buffers));
    };
    FlatBuffers versions;
    for (const auto& [version, weights] : store.versions())
      versions.emplace_back(version_name(store.newest() - version), weights);
    write("model", versions, store.shard().zero == 3);
    write("optimizer", store.optimizer().state(), store.shard().zero > 0);
  }
  return files;
}
// [end snippet]

void read_state(const Checkpoint& checkpoint, Engine& engine) {
  checkpoint.check_model(engine.training().whole);
  for (auto& [stage, store] : engine.stores()) {
    auto fill = [&, &store = store](const Tensor& buffer, bool sharded, auto load) {
      if (!sharded) return load(buffer);
      Tensor whole = whole_buffer(store, buffer.dtype(), engine.device());
      load(whole);
      buffer.backend().copy(own_window(store, whole), buffer);
    };
    for (const auto& [version, weights] : store.versions())
      fill(weights, store.shard().zero == 3, [&, back = store.newest() - version](const Tensor& x) {
        checkpoint.load_version(back, store.parameters(), x);
      });
    for (const auto& [name, buffer] : store.optimizer().state())
      fill(buffer, store.shard().zero > 0, [&, &name = name](const Tensor& x) {
        checkpoint.load_state(name, store.parameters(), x);
      });
  }
}

}  // namespace paragrad::parallel
