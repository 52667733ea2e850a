// Each member fills in the squares that it counts and zeros elsewhere, so that the sum is exact and
// does not depend on how the model is cut, unless shards cut a parameter: its parts are then added
// in rank order. Two orders of adding n terms that are not negative give sums within a share
// 2 (n - 1) u of each other, so norms within n u, u = 2^-53 (Higham 2002, section 4.2).
#include "parallel/engine/loss_and_norm.h"

#include <numeric>

#include "autograd/cpu/cpu_backend.h"

namespace plangrad::parallel {

void LossAndNorm::keep_loss(int micro, const Tensor& loss) {
  const int most = run_.plan.per_step;
  if (static_cast<int>(unread_.size()) == most) read_losses();
  if (!losses_.defined()) losses_ = empty({most}, loss.dtype(), loss.device(), Category::workspace);
  const auto place = static_cast<std::int64_t>(unread_.size());
  loss.backend().copy(loss, losses_.window(place, loss.shape()));
  unread_.push_back(micro);
}

/// Reads all losses of an update by one copy from the device.
void LossAndNorm::read_losses() {
  if (unread_.empty()) return;
  const std::vector<double> values = to_host(losses_);
  for (std::size_t i = 0; i < unread_.size(); ++i) run_.result.losses[unread_[i]] = values[i];
  unread_.clear();
}

void LossAndNorm::begin(const Instruction& x) {
  const std::vector<int>& group = run_.plan.groups[x.peer];
  if (group.size() == 1) return;  // whole() needs no messages
  const Gradients gradients = counted(x.version, group);
  const auto count = static_cast<std::int64_t>(run_.engine.training().whole.size());
  DevicePtr device = run_.engine.device();
  if (!device->backend().has_f64()) device = cpu_device();
  const Tensor squares = empty({count}, DType::f64, device, Category::communication);
  std::vector<TicketPtr> awaited = book_.changes(x.version);
  for (const Gradient& gradient : gradients)
    if (gradient.by) awaited.push_back(gradient.by);
  auto ready = [this, squares, gradients, awaited] {
    if (!std::ranges::all_of(awaited, &Ticket::done)) return false;
    const std::vector<double> values = squares_of(gradients);
    squares.backend().copy_from_host(values.data(), squares);
    return true;
  };
  auto sum = run_.in_group(x.peer, Joint::all_reduce, squares, AllReduce::scatter_reduce);
  sums_[x.version] = {squares, mailbox_.meet(x, sum, {}, ready)};
}

/// Waits for the sum of the group; a rank that holds all stages needs no message.
const std::vector<double>& LossAndNorm::whole(int version) {
  if (auto found = whole_.find(version); found != whole_.end()) return found->second;
  if (auto found = sums_.find(version); found != sums_.end()) {
    waiting_.wait(found->second.by);
    return whole_[version] = to_host(found->second.value);
  }
  for (const auto& [stage, store] : run_.engine.stores()) book_.finish({stage, version});
  return whole_[version] = squares_of(counted(version, {run_.rank}));
}

void LossAndNorm::forget_stepped() {
  const int made = run_.engine.made_everywhere();
  sums_.erase(sums_.begin(), sums_.upper_bound(made));
  whole_.erase(whole_.begin(), whole_.upper_bound(made));
}

std::vector<double> LossAndNorm::of_stage(const Made& sum) {
  WeightStore& store = run_.kept(sum.stage);
  return squares_of({{&store, store.own_sum(sum.version), nullptr}});
}

LossAndNorm::Gradients LossAndNorm::counted(int version, const std::vector<int>& group) {
  Gradients gradients;
  for (auto& [stage, store] : run_.engine.stores()) {
    const Made sum{stage, version};
    if (!book_.is_counted(sum, group)) continue;
    if (const Arriving* arriving = mailbox_.arriving(run_.finished_name(sum)))
      gradients.push_back({&store, arriving->value, arriving->by.ticket});
    else
      gradients.push_back({&store, store.own_sum(version), nullptr});
  }
  return gradients;
}

/// Computes the squares of all stages by one call, since the host waits for the result.
std::vector<double> LossAndNorm::squares_of(const Gradients& gradients) const {
  std::vector<double> result(run_.engine.training().whole.size(), 0);
  std::vector<Tensor> parts;
  std::vector<std::size_t> places;
  for (const auto& [store, gradient, by] : gradients) {
    auto place = store->own_places().begin();
    for (const Parameter& part : store->own_parameters()) {
      const std::size_t own = *place++;
      if (part.kind != ParameterKind::weight) continue;
      parts.push_back(gradient.window(part.offset, part.shape));
      places.push_back(own);
    }
  }
  if (parts.empty()) return result;
  const std::vector<double> sums = parts[0].backend().sums_of_squares(parts);
  for (std::size_t i = 0; i < sums.size(); ++i) result[places[i]] = sums[i];
  return result;
}

double LossAndNorm::checked(int version, const std::vector<double>& squares) {
  read_losses();
  const int per_step = run_.plan.per_step;
  double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / per_step;
  const std::map<int, double>& losses = run_.result.losses;
  auto last = losses.lower_bound(version * per_step);
  double loss = 0;
  for (auto at = losses.lower_bound((version - 1) * per_step); at != last; ++at) loss += at->second;
  if (std::isfinite(norm) && std::isfinite(loss)) return norm;
  throw Error(text(
      "step ", version, ": the gradient's norm is ", std::isnan(norm) ? "not a number" : text(norm),
      broken_parameter(squares), std::isfinite(loss) ? "" : ", and the loss is not finite either",
      "; this rank's weights are as the step before left them. To avoid this, ", when_not_finite));
}

/// Names the first parameter whose gradient is not finite.
std::string LossAndNorm::broken_parameter(const std::vector<double>& squares) const {
  auto square = squares.begin();
  for (const Parameter& parameter : run_.engine.training().whole)
    if (!std::isfinite(*square++)) return text(", as that of ", parameter.name, " is not finite");
  return "";
}

// ---- of all ranks (run_result.h) ----

RunResult merged(const std::vector<RunResult>& ranks) {
  RunResult world;
  for (RunResult rank : ranks) {
    world.losses.merge(rank.losses);
    world.accuracies.merge(rank.accuracies);
    world.norms.merge(rank.norms);
    for (const auto& [version, seconds] : rank.stepped)
      world.stepped[version] = std::max(world.stepped[version], seconds);
    for (const auto& [version, sums] : rank.squares) {
      auto& all = world.squares[version];
      all.resize(sums.size());
      std::transform(sums.begin(), sums.end(), all.begin(), all.begin(), std::plus<>());
    }
    for (const auto& [kind, bytes] : rank.bytes_sent) world.bytes_sent[kind] += bytes;
    world.late += rank.late;
    world.records.insert(world.records.end(), rank.records.begin(), rank.records.end());
  }
  return world;
}

double loss_of(const RunResult& world, int version, int per_step) {
  double loss = 0;
  for (int micro = (version - 1) * per_step; micro < version * per_step; ++micro)
    loss += world.losses.at(micro) / per_step;
  return loss;
}

double gradient_norm_of(const RunResult& world, int version, int per_step, bool clips) {
  if (clips) return world.norms.at(version);
  const std::vector<double>& squares = world.squares.at(version);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / per_step;
}

}  // namespace plangrad::parallel
