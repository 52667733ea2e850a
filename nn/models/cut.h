// What a model's cuts mean, known before anything is computed: shapes at the borders of stages,
// parameters that two of them share, and one order of all parameters.
// Not here: who runs which stage, and how shared gradients are added up. Chapter 06.
#pragma once

#include "nn/models/model.h"

namespace paragrad::nn {

/// Shape of what layers [first, last) make of an input of this shape. Nothing is built.
/// throws: Error if the range is outside the model, or a layer does not tell
Shape output_shape(const Model& model, int first, int last, Shape input);

/// All parameters of the model, without values, in the order that sums over parameters follow.
ParameterList whole_parameters(const Model& model);

/// For each parameter of `part`, its place in `whole`: 0, 1, 2, ...
/// throws: Error if it has none
std::vector<std::size_t> places(const ParameterList& part, const ParameterList& whole);

/// What two or more stages read, in the whole model's order and with offsets in a flat buffer of
/// its own (a GPT's tied table, which embedding and head read), and which stages these are.
struct Shared {
  ParameterList parameters;
  std::vector<int> stages;  ///< ascending
};

/// Of a model whose stage s is layers [cuts[s], cuts[s + 1]).
/// throws: Error unless the cuts begin with 0, ascend, and end with the number of layers
Shared shared_parameters(const Model& model, const std::vector<int>& cuts);

}  // namespace paragrad::nn
