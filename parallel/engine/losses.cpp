// One copy from the device brings all losses of a step.
// Chapter 05.
#include "parallel/engine/losses.h"

#include "autograd/backend.h"

namespace paragrad::parallel {

void Losses::keep(int micro, const Tensor& loss) {
  if (static_cast<int>(unread_.size()) == most_) read();
  if (!values_.defined())
    values_ = empty({most_}, loss.dtype(), loss.device(), Category::workspace);
  loss.backend().copy(loss,
                      values_.window(static_cast<std::int64_t>(unread_.size()), loss.shape()));
  unread_.push_back(micro);
}

void Losses::read() {
  if (unread_.empty()) return;
  const std::vector<double> values = to_host(values_);
  for (std::size_t i = 0; i < unread_.size(); ++i) losses_[unread_[i]] = values[i];
  unread_.clear();
}

}  // namespace paragrad::parallel
