// Compares on the host.
// Chapter 06.
#include "parallel/engine/accuracy.h"

#include <algorithm>

namespace plangrad::parallel {

double accuracy_of(const autograd::Tensor& logits, const autograd::Tensor& targets) {
  const std::vector<double> scores = to_host(logits), labels = to_host(targets);
  const auto classes = static_cast<std::ptrdiff_t>(scores.size() / labels.size());
  double right = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    auto first = scores.begin() + static_cast<std::ptrdiff_t>(row) * classes;
    right += static_cast<double>(std::max_element(first, first + classes) - first) == labels[row];
  }
  return right / static_cast<double>(labels.size());
}

}  // namespace plangrad::parallel
