// GradientSum: a stage's gradient sum for one update, a flat buffer that need not begin with zeros.
// Not here: who adds (weight_store.h), and sums over ranks (sum_book.h).
// Chapters 05 and 12.
#pragma once

#include <set>
#include <string>

#include "autograd/backend.h"
#include "nn/models/parameter.h"

namespace plangrad::parallel {

/// A flat sum. Each parameter's part is undefined until its first gradient is written there; later
/// ones are added. This saves a pass that writes zeros, and one that reads them.
class GradientSum {
 public:
  /// A sum of which all parts have begun.
  explicit GradientSum(const autograd::Tensor& flat) : flat_(flat) {}
  /// A sum of which none has begun. The parameters must outlive it.
  GradientSum(const autograd::Tensor& flat, const nn::ParameterList& parameters)
      : flat_(flat), parameters_(&parameters) {}

  const autograd::Tensor& flat() const { return flat_; }
  /// Whether the parameter's part has begun already. If not, it begins now: the caller writes it.
  bool begun(const nn::Parameter& parameter) {
    return !parameters_ || !begun_.insert(parameter.name).second;
  }
  /// The sum so far, with zeros in parts without a gradient.
  const autograd::Tensor& whole() {
    if (!parameters_) return flat_;
    for (const nn::Parameter& p : *parameters_)
      if (!begun(p)) flat_.backend().fill(0, flat_.window(p.offset, p.shape));
    parameters_ = nullptr;
    return flat_;
  }

 private:
  autograd::Tensor flat_;
  const nn::ParameterList* parameters_ = nullptr;  // null once all parts have begun
  std::set<std::string> begun_;                    // names of parameters
};

}  // namespace plangrad::parallel
