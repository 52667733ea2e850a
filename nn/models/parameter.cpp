// A name that is added twice is one parameter, as the table that a GPT's embedding and head share.
// If a cut separates the two, each stage takes it out of its list, and holds a copy; copies agree.
// Chapter 02.
#include "nn/models/parameter.h"

#include <algorithm>

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

}  // namespace plangrad::nn
