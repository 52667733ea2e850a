// Models by name: networks of papers, with shapes from their sources, or one that a checkpoint
// describes; and what a microbatch of each looks like.
// Not here: what they cost (layer_costs.h).
// Chapters 02 and 16.
//
// The room parallel/planner says what a plan takes on a machine that is not here:
// models.h       networks by name
// layer_costs.h  what each stage computes and keeps, by running its code on the blank device
// peak.h         the bytes of every rank over the time of a simulated plan, and the peak
// search.h       the fastest plans that fit; evaluation.h: seconds and bytes of one; bounds.cpp:
//                what it takes at least; replicas.cpp: a replica that stands for all, and their
//                sums; stage_seconds.h: how long a machine takes for what a stage computes
// order.h        orders of an update's cells: the list scheduler, and the search for a short one
// placement.h    operators of a graph on devices
#pragma once

#include "nn/models/gpt.h"
#include "parallel/engine/training.h"

namespace plangrad::parallel {

/// A network, and the shape of one of its examples.
struct PlannedModel {
  std::string name;
  Model layers;
  std::vector<std::int64_t> input;    ///< of one example, without the examples' dimension
  std::vector<std::int64_t> target;   ///< class ids of one example; empty: one
  int vocabulary = 0;                 ///< of ids; 0: inputs are values of the weights' type
  MakeOptimizer optimizer = nullptr;  ///< the one that it is trained with; null: AdamW
  std::string program = {};           ///< that trains it
  std::map<std::string, std::string> flags = {};  ///< of the program, for this network
};

/// A GPT, as train_gpt trains it.
PlannedModel planned_gpt(const std::string& name, const GptConfig& config);

/// The names of models.
std::vector<std::string> planned_models();

/// Finds a model by its name, or makes the GPT that a file of JSON describes: the JSON of a
/// GptConfig, or of a checkpoint or a run's summary that has one.
/// throws: Error that lists the known names, if there is neither; or if the file describes no GPT
PlannedModel planned_model(const std::string& name_or_file);

}  // namespace plangrad::parallel
