// Delayed schedules need more than the newest weights to continue with the same numbers: a
// checkpoint holds all versions that are alive between plans. Files hold whole buffers, so shards
// are gathered before they are written; each rank reads its shard of them.
// Chapters 07, 09 and 11.
#include "parallel/session/state_files.h"

#include <algorithm>

#include "parallel/plan/lifetimes.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {
namespace {

constexpr const char* early_name = "early";  // the values that a store remembers

/// A buffer for all of these parameters.
Tensor whole_buffer(const ParameterList& parameters, DType dtype, const DevicePtr& device) {
  return empty({parameters.numel()}, dtype, device, Category::communication);
}

}  // namespace

// [snippet write_state]
std::vector<StagePart> parts_of(WeightStore& store, int stage, const Plan& plan) {
  std::vector<StagePart> parts;
  auto add = [&](std::string stem, const ParameterList& list, FlatBuffers buffers, bool sharded) {
    if (plan.stage_count() > 1) stem += text("_", stage);
    parts.push_back({std::move(stem), list, std::move(buffers), sharded});
  };
  FlatBuffers versions;
  for (const auto& [version, weights] : store.versions())
    versions.emplace_back(version_name(store.newest() - version), weights);
  add("model", store.parameters(), versions, store.shard().zero == 3);
  add("optimizer", store.parameters(), store.optimizer().state(), store.shard().zero > 0);
  if (store.remembered().defined())
    add("early", store.parameters(), {{early_name, store.remembered()}}, store.shard().zero == 3);
  const StateForm& form = store.form();
  if (form.prunes()) add("index", form.pruned(), {{index_name, form.index()}}, false);
  return parts;
}

void write_state(Engine& engine, const Plan& plan, const WriteFile& write_file) {
  const auto ranks = holders(plan);
  for (auto& [stage, store] : engine.stores()) {
    const bool writes = ranks.at(stage).front() == engine.transport().rank();
    for (StagePart& part : parts_of(store, stage, plan)) {
      for (auto& [name, buffer] : part.buffers) {
        if (!part.sharded) break;
        const Tensor whole =
            engine.gathered(buffer, part.parameters.numel(), store.shard(), ranks.at(stage));
        buffer = writes ? whole : Tensor();  // a rank that doesn't write frees each at once
      }
      if (!writes) continue;
      AtWork saving(engine.transport(), Work::saving);
      write_file(part.stem, part.parameters, part.buffers);
      part.buffers.clear();  // frees what was gathered
    }
  }
}
// [end snippet]

void read_state(const Checkpoint& checkpoint, Engine& engine) {
  checkpoint.check_model(engine.training().whole);
  for (auto& [stage, store] : engine.stores()) {
    // Files are read with all their elements, parameter by parameter if the form does not store
    // all, so that there is never a dense buffer.
    auto fill = [&, &store = store](const Tensor& buffer, bool sharded, auto load) {
      const StateForm& form = store.form();
      const Tensor stored =
          sharded ? whole_buffer(form.stored(), buffer.dtype(), engine.device()) : buffer;
      auto load_one = [&](const Parameter& p) {
        ParameterList one;
        one.add(p.name, p.shape, p.init, p.kind);
        const Tensor values = whole_buffer(one, buffer.dtype(), engine.device());
        load(one, values);
        form.compress(p, values, stored);
      };
      if (form.prunes())
        std::for_each(form.parameters().begin(), form.parameters().end(), load_one);
      else
        load(form.parameters(), stored);
      if (sharded) buffer.backend().copy(store.shard().window(stored), buffer);
    };
    for (const auto& [version, weights] : store.versions())
      fill(weights, store.shard().zero == 3,
           [&, back = store.newest() - version](const ParameterList& list, const Tensor& x) {
             checkpoint.load_version(back, list, x);
           });
    store.count_steps_from(of_run(checkpoint, "rewound", 0));
    if (checkpoint.has_state(early_name)) {
      store.remember();
      fill(store.remembered(), store.shard().zero == 3,
           [&](const ParameterList& list, const Tensor& x) {
             checkpoint.load_state(early_name, list, x);
           });
    }
    for (const auto& [name, buffer] : store.optimizer().state())
      fill(buffer, store.shard().zero > 0,
           [&, &name = name](const ParameterList& list, const Tensor& x) {
             checkpoint.load_state(name, list, x);
           });
  }
}

}  // namespace plangrad::parallel
