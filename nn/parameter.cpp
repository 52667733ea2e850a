// A name that is added twice is one parameter: so GPT's head shares the embedding's table.
// Chapter 02.
#include "nn/parameter.h"

namespace paragrad::nn {

Parameter& ParameterList::add(const std::string& name, const Shape& shape, Init init,
                              ParameterKind kind) {
  for (Parameter& parameter : parameters_) {
    if (parameter.name != name) continue;
    PG_CHECK(parameter.shape == shape, "parameter ", name, " is ", parameter.shape,
             " in one layer and ", shape, " in another");
    return parameter;
  }
  parameters_.push_back({name, shape, init, kind, numel_, {}});
  numel_ += shape.numel();
  return parameters_.back();
}

}  // namespace paragrad::nn
