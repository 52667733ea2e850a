// Layer costs: what a stage of a model computes, moves and keeps for one microbatch, found by
// running the stage's own code on the blank device.
// Not here: seconds, which a machine adds; and how much of it ranks have at once (peak.h).
// Chapters 03 and 09.
#pragma once

#include "autograd/kernel_work.h"
#include "parallel/planner/models.h"

namespace plangrad::parallel {

/// How a model is trained, as far as its costs depend on it.
struct CostSettings {
  DType dtype = DType::f32;
  int examples = 1;               ///< of a microbatch
  bool recompute_layers = false;  ///< keep only what enters each layer
  std::vector<double> cuts = {};  ///< as Layout::cuts
  double pruned = 0;              ///< share of each matrix that is pruned, and not stored (SAMO)
  /// Elements that a parameter's state has if this share is pruned; null: all.
  std::function<std::int64_t(const Parameter&, double pruned)> stored = nullptr;
  std::shared_ptr<Backend> like = nullptr;  ///< whose scratch counts (autograd/blank)
};

/// Kernels of one microbatch: those of a forward, of a backward, and of its two parts.
struct StageWork {
  KernelTable forward, backward, input_part, weight_part;
};

/// Bytes of a stage. "Beside": what else is there at the worst moment.
struct StageBytes {
  std::int64_t elements = 0;   ///< of its weights
  std::int64_t stored = 0;     ///< those that its state has
  std::int64_t pruned = 0;     ///< those of parameters that are stored in part
  std::int64_t optimizer = 0;  ///< the optimizer's state
  std::int64_t kept = 0;       ///< from forward to backward, input and output among it
  std::int64_t forward = 0;    ///< while a forward runs, beside what it keeps
  std::int64_t backward = 0;   ///< while a backward runs, beside what the forward kept
  std::int64_t input_part = 0, weight_part = 0;  ///< the same, of a split backward
  std::int64_t opening = 0, opening_part = 0;    ///< the same, of a backward, or its second part,
                                                 ///< that is the first of a sum: beside the sum
  std::int64_t waiting = 0;                      ///< kept between its two parts
  std::int64_t input = 0, output = 0;
};

struct StageCosts {
  ParameterList parameters;  ///< as they are stored
  StageWork work;
  StageBytes bytes;
};

/// What the stages of a model cost; the last one, if there are more than `stages`, is the tied one.
struct ModelCosts {
  Training training;
  CostSettings settings;
  std::vector<StageCosts> stages;
};

/// Stages of one model that were run, by all that their costs depend on.
using KnownStages = std::map<std::string, StageCosts>;

/// Cuts a model into stages and runs each on a blank device.
///   known: stages that need not be run again, of the same model and `like`
/// throws: Error if the model has fewer layers than stages
ModelCosts model_costs(const PlannedModel& model, int stages, const CostSettings& settings,
                       KnownStages* known = nullptr);

/// Bytes of a stage's gradient sum, in f32, as a codec sends it: of its factors, or its values.
std::int64_t sent_sum_bytes(const StageCosts& stage, const CodecSpec& codec);

/// Runs one stage of a training, all layers of it, on a device with values or without.
///   all: the training and its settings; model: the shapes of its inputs and targets
/// Fills in what a microbatch takes; on a blank device, the work, too.
StageCosts run_stage(const ModelCosts& all, int stage, const PlannedModel& model,
                     const DevicePtr& device);

}  // namespace plangrad::parallel
