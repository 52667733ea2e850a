// Layers are built to ask for their parameters' names and thrown away: that costs no memory.
// Not here: Stage, which takes shared parameters out of its own (nn/models/model.cpp).
// Chapter 06.
#include "nn/models/cut.h"

#include <algorithm>
#include <map>

namespace paragrad::nn {

Shape output_shape(const Model& model, int first, int last, Shape input) {
  PG_CHECK(0 <= first && first <= last && last <= static_cast<int>(model.size()), "layers [", first,
           ",", last, ") of a model with ", model.size(), " layers");
  for (int i = first; i < last; ++i) {
    PG_CHECK(model[i].output, "layer ", model[i].name,
             " does not tell the shape of its output; set LayerSpec::output");
    input = model[i].output(input);
  }
  return input;
}

ParameterList whole_parameters(const Model& model) {
  return Stage(model, 0, static_cast<int>(model.size())).parameters();
}

std::vector<std::size_t> places(const ParameterList& part, const ParameterList& whole) {
  std::map<std::string, std::size_t> place;
  for (const Parameter& parameter : whole) place.emplace(parameter.name, place.size());
  std::vector<std::size_t> result;
  for (const Parameter& parameter : part) {
    auto found = place.find(parameter.name);
    PG_CHECK(found != place.end(), "the whole model has no parameter ", parameter.name);
    result.push_back(found->second);
  }
  return result;
}

Shared shared_parameters(const Model& model, const std::vector<int>& cuts) {
  PG_CHECK(cuts.size() >= 2 && cuts.front() == 0 && cuts.back() == static_cast<int>(model.size()),
           "cuts of a model with ", model.size(), " layers must begin with 0 and end with ",
           model.size());
  std::map<std::string, std::vector<int>> users;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    const Stage stage(model, cuts[s], cuts[s + 1]);
    for (const Parameter& parameter : stage.parameters())
      users[parameter.name].push_back(static_cast<int>(s));
  }

  Shared shared;
  for (const Parameter& p : whole_parameters(model)) {
    const std::vector<int>& stages = users[p.name];
    if (stages.size() < 2) continue;
    shared.parameters.add(p.name, p.shape, p.init, p.kind).shared = true;
    shared.stages.insert(shared.stages.end(), stages.begin(), stages.end());
  }
  std::sort(shared.stages.begin(), shared.stages.end());
  shared.stages.erase(std::unique(shared.stages.begin(), shared.stages.end()), shared.stages.end());
  return shared;
}

}  // namespace paragrad::nn
