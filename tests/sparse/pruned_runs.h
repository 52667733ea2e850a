// Runs of a small pruned GPT, in the form of SAMO and in the masked one: what tests of pruned plans
// share.
#pragma once

#include "autograd/cpu/cpu_backend.h"
#include "sparse/pruning.h"
#include "sparse/samo.h"
#include "tests/parallel/support/coded_runs.h"

namespace plangrad::tests {

using namespace plangrad::sparse;

struct PrunedRun : CodedRun {
  double pruned = 0.8;
  bool all = false;  ///< embeddings, biases and norms, too
  DType dtype = DType::f32;
  bool recompute = false;
};

inline std::ostream& operator<<(std::ostream& out, const PrunedRun& run) {
  return out << static_cast<const CodedRun&>(run) << " --prune " << run.pruned
             << (run.all ? " all" : "") << " --dtype " << run.dtype
             << (run.recompute ? " recompute" : "");
}

/// Masks by the magnitudes of the first values.
inline std::shared_ptr<const Masks> first_masks(const Training& training, double pruned, bool all) {
  const DevicePtr device = cpu_device();
  const Tensor first = empty({training.whole.numel()}, training.dtype, device);
  initialize(training.whole, first, training.seed);
  std::vector<Candidate> candidates;
  for (const Parameter& p : training.whole)
    if (is_prunable(p, all))
      candidates.push_back({p.name, candidates.size(),
                            magnitude_keys(p.name, to_host(first.window(p.offset, p.shape)))});
  return std::make_shared<const Masks>(prune_each(candidates, pruned));
}

/// Parameters of a stage as forward reads them; the tied one is number stages().
inline ParameterList stage_parameters(const Training& training, int stage) {
  if (stage == training.stages()) return training.shared.parameters;
  return Stage(training.model, training.cuts[stage], training.cuts[stage + 1],
               training.shared.parameters)
      .parameters();
}

/// Elements of a parameter, or of all of a list, that are stored.
inline std::int64_t stored_count(const Parameter& p, const Masks& masks) {
  const auto mask = masks.find(p.name);
  return mask == masks.end() ? p.shape.numel() : static_cast<std::int64_t>(mask->second.size());
}
inline std::int64_t stored_count(const ParameterList& list, const Masks& masks) {
  std::int64_t count = 0;
  for (const Parameter& p : list) count += stored_count(p, masks);
  return count;
}

/// What is stored of a stage, with zeros where elements are pruned.
inline std::vector<double> expanded(const std::vector<double>& stored, const ParameterList& list,
                                    const Masks& masks) {
  std::vector<double> all(list.numel(), 0);
  auto next = stored.begin();
  for (const Parameter& p : list) {
    const auto mask = masks.find(p.name);
    if (mask == masks.end())
      for (std::int64_t i = 0; i < p.shape.numel(); ++i) all[p.offset + i] = *next++;
    else
      for (std::int32_t i : mask->second) all[p.offset + i] = *next++;
  }
  return all;
}

/// Weights by stage and rank; the shards of ZeRO 3 put together, by stage and -1.
using StageWeights = std::map<std::pair<int, int>, std::vector<double>>;
inline StageWeights by_stage(const Outcome& outcome, int zero) {
  StageWeights result;
  for (const auto& [where, values] : outcome.weights) {
    auto& all = result[{where.second, zero == 3 ? -1 : where.first}];
    all.insert(all.end(), values.begin(), values.end());
  }
  return result;
}

inline StageWeights expanded(StageWeights stored, const Training& training, const Masks& masks) {
  for (auto& [where, values] : stored)
    values = expanded(values, stage_parameters(training, where.first), masks);
  return stored;
}

inline Training training_of(const PrunedRun& run) {
  Training training = training_of(static_cast<const CodedRun&>(run));
  training.dtype = run.dtype;
  return training;
}

/// A run's plans, and both ways to run them.
struct Pruned {
  Training training;
  std::shared_ptr<const Masks> masks;
  std::vector<VerifiedPlan> plans;
  SmallBatches batches;
  AllReduce reduction;
  std::vector<int> hosts;

  Pruned(const PrunedRun& run, int plan_count, int steps)
      : training(training_of(run)),
        masks(first_masks(training, run.pruned, run.all)),
        batches(coded_gpt(run.tied)),
        reduction(reductions().at(run.reduction)) {
    Layout layout = layout_of(run, steps);
    layout.recompute = run.recompute;
    plans = plans_of(run.schedule, layout, plan_count);
    hosts = hosts_of(plans[0].plan().ranks());
    training.form = form_of<SamoForm>(masks);
  }
  Outcome by_engine(int capacity = 0) {
    return run_by_engine(training, plans, batches, capacity, reduction, hosts);
  }
  Outcome serially() { return run_serially(training, plans, batches, reduction, hosts); }
  /// Runs by the engine, in the masked form.
  Outcome masked() {
    Training like = training;
    like.form = form_of<MaskedForm>(masks);
    return run_by_engine(like, plans, batches, 0, reduction, hosts);
  }
};

/// Every schedule and setting, and ZeRO where it goes with them.
inline std::vector<PrunedRun> pruned_runs() {
  std::vector<PrunedRun> runs;
  auto add = [&](const std::string& schedule, int zero = 0, Setting setting = Setting::data) {
    PrunedRun run;
    run.schedule = schedule;
    run.zero = zero;
    run.setting = setting;
    run.all = runs.size() % 2;
    const bool moves = setting == Setting::model || setting == Setting::zero;
    run.tied = runs.size() % 3 == 1 && zero < 3 && !moves;
    run.recompute = runs.size() % 4 == 2;
    runs.push_back(run);
  };
  for (const char* schedule : {"data", "gpipe", "1f1b", "pipedream", "2bw"})
    for (int zero : {0, 1}) add(schedule, zero);
  for (int zero : {2, 3}) add("data", zero);
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (const auto& [name, setting] : settings()) add(schedule, 0, setting);
  for (int zero : {0, 1}) add("paci", zero);
  return runs;
}

}  // namespace plangrad::tests
