// Each member fills in the squares that it counts and zeros elsewhere, so that summing up is exact
// and does not depend on how the model is cut, unless shards cut a parameter: its parts are then
// added in rank order. Two orders of n terms that are not negative give sums within a share
// 2 (n - 1) u of each other, so norms within n u, u = 2^-53 (Higham 2002, section 4.2).
#include "parallel/engine/norms.h"

#include <cmath>
#include <numeric>

#include "parallel/codecs/not_finite.h"

namespace paragrad::parallel {

void Norms::begin(const Instruction& x) {
  const std::vector<int>& group = row_.plan.groups[x.peer];
  if (group.size() == 1) return;  // whole() needs no messages
  const Gradients gradients = counted(x.version, group);
  const auto count = static_cast<std::int64_t>(engine_.training().whole.size());
  const Tensor squares = empty({count}, DType::f64, engine_.host_device(), Category::communication);
  std::vector<TicketPtr> awaited = book_.changes(x.version);
  for (const Gradient& gradient : gradients)
    if (gradient.by) awaited.push_back(gradient.by);
  auto ready = [this, squares, gradients, awaited] {
    for (const TicketPtr& ticket : awaited)
      if (!ticket->done) return false;
    const std::vector<double> values = squares_of(gradients);
    squares.backend().copy_from_host(values.data(), squares);
    return true;
  };
  auto run = groups_.run(all_reduce, x.peer, squares, AllReduce::scatter_reduce);
  sums_[x.version] = {mailbox_.meet(x, run, {}, ready), squares};
}

/// A rank that holds all stages needs no message for it.
const std::vector<double>& Norms::whole(int version) {
  if (auto found = whole_.find(version); found != whole_.end()) return found->second;
  if (auto found = sums_.find(version); found != sums_.end()) {
    waiting_.wait(found->second.by);
    return whole_[version] = to_host(found->second.squares);
  }
  for (const auto& [stage, store] : stores_.kept()) book_.finish({stage, version});
  return whole_[version] = squares_of(counted(version, {row_.rank}));
}

std::vector<double> Norms::of_stage(const Made& sum) {
  WeightStore& store = stores_.kept(sum.stage);
  return squares_of({{&store, store.own_sum(sum.version), nullptr}});
}

Norms::Gradients Norms::counted(int version, const std::vector<int>& group) {
  Gradients gradients;
  for (auto& [stage, store] : stores_.kept()) {
    const Made sum{stage, version};
    if (!book_.is_counted(sum, group)) continue;
    if (const Arriving* arriving = mailbox_.arriving(row_.finished_name(sum)))
      gradients.push_back({&store, arriving->value, arriving->by.ticket});
    else
      gradients.push_back({&store, store.own_sum(version), nullptr});
  }
  return gradients;
}

std::vector<double> Norms::squares_of(const Gradients& gradients) const {
  std::vector<double> result(engine_.training().whole.size(), 0);
  for (const auto& [store, gradient, by] : gradients) {
    std::vector<double> sums = sums_of_squares(store->own_parameters(), gradient);
    for (std::size_t i = 0; i < sums.size(); ++i) result[store->own_places()[i]] = sums[i];
  }
  return result;
}

double Norms::checked(int version, const std::vector<double>& squares,
                      const std::map<int, double>& losses) const {
  const int per_step = row_.plan.per_step;
  double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / per_step;
  double loss = 0;
  auto last = losses.lower_bound(version * per_step);
  for (auto at = losses.lower_bound((version - 1) * per_step); at != last; ++at) loss += at->second;
  PG_CHECK(std::isfinite(norm) && std::isfinite(loss), "step ", version,
           ": the gradient's norm is ", norm, broken_parameter(squares),
           std::isfinite(loss) ? "" : ", and the loss is not finite either",
           "; the weights are as the step before left them. To avoid this, ", when_not_finite);
  return norm;
}

/// The first whose gradient is not finite.
std::string Norms::broken_parameter(const std::vector<double>& squares) const {
  auto square = squares.begin();
  for (const Parameter& parameter : engine_.training().whole)
    if (!std::isfinite(*square++)) return text(", as that of ", parameter.name, " is not finite");
  return "";
}

}  // namespace paragrad::parallel
