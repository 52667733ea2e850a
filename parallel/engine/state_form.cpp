// The dense form.
// Chapter 11.
#include "parallel/engine/state_form.h"

#include "autograd/backend.h"

namespace paragrad::parallel {

void StateForm::add(const Parameter& parameter, const Tensor& dx, const Tensor& sum) const {
  dx.backend().accumulate(dx, sum.window(parameter.offset, parameter.shape));
}

void StateForm::compress(const Tensor& all, const Tensor& stored) const {
  for (const Parameter& parameter : parameters_)
    compress(parameter, all.window(parameter.offset, parameter.shape), stored);
}

void StateForm::compress(const Parameter& parameter, const Tensor& all,
                         const Tensor& stored) const {
  all.backend().copy(all, stored.window(parameter.offset, parameter.shape));
}

void StateForm::expand(const Tensor& stored, const Tensor& all) const {
  stored.backend().copy(stored, all);
}

}  // namespace paragrad::parallel
