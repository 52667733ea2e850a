// A name that is added twice is one parameter, as the table that a GPT's embedding and head share.
// If a cut separates the two, each stage takes it out of its list, and holds a copy; copies agree.
// A stage binds its parameters to windows of one flat buffer, and sends their gradients to a sink.
// Parameters that it shares with other stages have another buffer, with the same layout in all of
// these stages. Their names tell which stages share them; layers are built to get them. Chapter 02.
#include "nn/models/model.h"

#include <algorithm>
#include <map>
#include <set>

#include "autograd/backend.h"

namespace plangrad::nn {

Parameter& ParameterList::add(const std::string& name, const Shape& shape, Init init,
                              ParameterKind kind) {
  const bool is_new = names_.insert(name).second;  // or each of n would be compared with n others
  for (Parameter& parameter : parameters_) {
    if (is_new) break;
    if (parameter.name != name) continue;
    PG_CHECK(parameter.shape == shape, "parameter ", name, " is ", parameter.shape,
             " in one layer and ", shape, " in another");
    return parameter;
  }
  bool decays = kind == ParameterKind::weight && shape.rank() >= 2;
  parameters_.push_back({name, shape, init, kind, numel_, false, decays});
  numel_ += shape.numel();
  return parameters_.back();
}

ParameterList ParameterList::take(const ParameterList& shared) {
  ParameterList taken;
  bool any = false;
  for (const Parameter& like : shared) {
    auto mine = std::find_if(begin(), end(), [&](auto& p) { return p.name == like.name; });
    if (mine == end()) {
      taken.parameters_.emplace_back();  // keeps its place, so that all stages' buffers agree
    } else {
      PG_CHECK(mine->shape == like.shape, "parameter ", like.name, " is ", mine->shape,
               " in this stage and ", like.shape, " in the list of shared ones");
      taken.parameters_.splice(taken.end(), parameters_, mine);  // layers keep its address
      any = true;
    }
    taken.parameters_.back() = like;
    taken.parameters_.back().shared = true;
  }
  if (!any) return {};
  taken.numel_ = shared.numel();
  numel_ = 0;
  for (Parameter& parameter : parameters_) {
    parameter.offset = numel_;
    numel_ += parameter.shape.numel();
  }
  return taken;
}

// [snippet part]
ParameterList ParameterList::part(std::int64_t first, std::int64_t last) const {
  ParameterList result;
  for (const Parameter& parameter : parameters_) {
    std::int64_t begin = std::max(first, parameter.offset);
    std::int64_t end = std::min(last, parameter.offset + parameter.shape.numel());
    if (begin >= end) continue;
    result.parameters_.push_back(parameter);
    result.parameters_.back().offset = begin - first;
    result.parameters_.back().shape = {end - begin};
    result.parameters_.back().value = {};
  }
  result.numel_ = last - first;
  return result;
}
// [end snippet]

void check_buffer(const ParameterList& parameters, const Tensor& flat, const std::string& name) {
  PG_CHECK(flat.defined() && flat.numel() == parameters.numel(), "there are ", parameters.numel(),
           " parameters, and the buffer ", name, " is ", flat);
}

void initialize(const ParameterList& parameters, const Tensor& weights, std::uint64_t seed) {
  check_buffer(parameters, weights, "of first values");
  for (const Parameter& parameter : parameters) {
    Tensor value = weights.window(parameter.offset, parameter.shape);
    RandomKey key(seed, parameter.name);
    const Init& init = parameter.init;
    switch (init.kind) {
      case Init::Kind::constant: value.backend().fill(init.a, value); break;
      case Init::Kind::normal: value.backend().fill_normal(key, init.a, init.b, value); break;
      case Init::Kind::uniform: value.backend().fill_uniform(key, init.a, init.b, value); break;
    }
  }
}

/// throws: Error unless the model has layers [first, last), and they are at least `least`
static void check_range(const Model& model, int first, int last, int least) {
  PG_CHECK(0 <= first && last - first >= least && last <= static_cast<int>(model.size()),
           "no layers [", first, ",", last, ") in a model with ", counted(model.size(), "layer"));
}

Stage::Stage(const Model& model, int first, int last, const ParameterList& shared) {
  check_range(model, first, last, 1);
  for (int i = first; i < last; ++i) layers_.push_back(model[i].build(parameters_));
  shared_ = parameters_.take(shared);
}

void Stage::bind(const Tensor& weights, const ParameterSink& sink, const Tensor& shared) {
  auto read = [&sink](ParameterList& list, const ParameterList& stored, const char* kind,
                      const Tensor& flat) {
    if (list.size() == 0) return;
    PG_CHECK(flat.defined() && flat.numel() == stored.numel(), "bind: the stage has ",
             stored.numel(), kind, " parameters, the buffer of their values is ", flat);
    auto place = stored.begin();
    for (Parameter& parameter : list) {
      parameter.value = flat.window(place->offset, place->shape);
      parameter.product = (place++)->product;
      if (!sink) continue;
      auto add = [&parameter, sink](const Tensor& dx) { sink(parameter, dx); };
      auto sum = [&parameter, sink] { return sink.place(parameter); };
      parameter.value = variable(parameter.value, {add, sum});
    }
  };
  read(parameters_, stored_ ? *stored_ : parameters_, "", weights);
  read(shared_, shared_, " shared", shared);
}

void Stage::unbind() {
  for (ParameterList* list : {&parameters_, &shared_})
    for (Parameter& parameter : *list) parameter.value = {};
}

Tensor Layer::loss(const Tensor& x, const Tensor& targets, const Pass& pass) const {
  return cross_entropy(forward(x, pass), targets);
}

// [snippet forward]
Tensor Stage::forward(Tensor x, const Pass& pass, const Tensor& targets) const {
  for (const Parameter& parameter : parameters_)
    PG_CHECK(parameter.value.defined(), "forward: no weights; call bind() first");
  for (const auto& layer : layers_) {
    const bool ends = targets.defined() && layer == layers_.back();
    auto forward = [&layer = *layer, pass, ends, targets](const Tensor& x) {
      return ends ? layer.loss(x, targets, pass) : layer.forward(x, pass);
    };
    x = pass.recompute ? recompute(forward, x) : forward(x);
  }
  return x;
}
// [end snippet]

// [snippet add_to_flat]
Stage::ParameterSink add_to_flat(const Tensor& gradients) {
  return [gradients](const Parameter& parameter, const Tensor& dx) {
    dx.backend().accumulate(dx, gradients.window(parameter.offset, parameter.shape));
  };
}
// [end snippet]

CutModel cut_model(const Model& model, const std::vector<double>& begins) {
  const auto layers = static_cast<int>(model.size());
  CutModel found{{}, {0}};
  auto next = begins.begin();
  for (int layer = 0; layer < layers; ++layer) {
    const LayerSpec& whole = model[layer];
    for (; next != begins.end() && *next <= layer; ++next)
      found.cuts.push_back(static_cast<int>(found.model.size()));
    if (next == begins.end() || *next >= layer + 1) {
      found.model.push_back(whole);
      continue;
    }
    PG_CHECK(*next == layer + 0.5 && !whole.halves.empty(), "cuts: a stage can't begin at layer ",
             *next, "; layer ", layer, " (", whole.name, ") ",
             whole.halves.empty() ? "has no halves" : "has two halves");
    found.model.insert(found.model.end(), whole.halves.begin(), whole.halves.end());
    found.cuts.push_back(static_cast<int>(found.model.size()) - 1);
    ++next;
  }
  PG_CHECK(next == begins.end(), "cuts: a stage can't begin at layer ", *next, "; the model has ",
           counted(layers, "layer"), ", the last is layer ", layers - 1);
  found.cuts.push_back(static_cast<int>(found.model.size()));
  return found;
}

std::vector<double> cut_places(const Model& model) {
  std::vector<double> places;
  for (std::size_t layer = 0; layer < model.size(); ++layer) {
    places.push_back(static_cast<double>(layer));
    if (!model[layer].halves.empty()) places.push_back(places.back() + 0.5);
  }
  return places;
}

Shape output_shape(const Model& model, int first, int last, Shape input) {
  check_range(model, first, last, 0);
  for (int i = first; i < last; ++i) {
    PG_CHECK(model[i].output, "layer ", model[i].name,
             " does not declare the shape of its output; set LayerSpec::output");
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
           "cuts of a model with ", counted(model.size(), "layer"),
           " must begin with 0 and end with ", model.size());
  std::map<std::string, std::vector<int>> users;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    const Stage stage(model, cuts[s], cuts[s + 1]);
    for (const Parameter& parameter : stage.parameters())
      users[parameter.name].push_back(static_cast<int>(s));
  }

  Shared shared;
  std::set<int> all;
  for (const Parameter& p : whole_parameters(model)) {
    const std::vector<int>& stages = users[p.name];
    if (stages.size() < 2) continue;
    shared.parameters.add(p.name, p.shape, p.init, p.kind).shared = true;
    all.insert(stages.begin(), stages.end());
  }
  shared.stages.assign(all.begin(), all.end());
  return shared;
}

}  // namespace plangrad::nn
