// Values on their way: what a send takes, where a recv puts what it brings, and what a computation
// waits for. Not here: how they travel (row_messages.cpp).
// Chapter 08.
#include "parallel/engine/row_run.h"

namespace paragrad::parallel {

RowRun::Name RowRun::name_of(const Instruction& x) {
  return {x.what, x.stage, x.what == Value::weights ? x.version : x.micro};
}

/// Memory for what a message brings, charged to what it is. A turn is empty.
Tensor RowRun::room_for(const Instruction& x) {
  switch (x.what) {
    case Value::turn: return {};
    case Value::weights: return store(x.stage).bring(x.version);
    case Value::gradient_sum: return store(x.stage).new_sum();
    default:
      return empty(shape_of_output(x.stage, x.micro), engine_.training_.dtype, engine_.device_);
  }
}

Shape RowRun::shape_of_output(int stage, int micro) const {
  const Training& training = engine_.training_;
  return output_shape(training.model, 0, training.cuts[stage + 1], batches_.shape(micro));
}

RowRun::Arriving RowRun::value_to_send(const Instruction& x) {
  if (x.what == Value::turn) return {};
  if (x.what == Value::gradient_sum) return sum_to_send(x);
  if (x.what != Value::weights) return take_arriving(name_of(x));
  auto arriving = arriving_.find(name_of(x));
  return {store(x.stage).weights(x.version),
          arriving == arriving_.end() ? Issued{} : arriving->second.by};
}

/// One that arrived by this name, or this rank's own. It moves, unless the row still steps with it.
RowRun::Arriving RowRun::sum_to_send(const Instruction& x) {
  const std::pair<int, int> made{x.stage, plan_.made_by(x.micro)};
  const bool moves = !is_finished(x) || !steps_.contains(made);
  Arriving sum;
  if (auto arrived = arriving_.find(name_of(x)); arrived != arriving_.end())
    sum = moves ? take_arriving(name_of(x)) : arrived->second;
  else
    sum = own_sum_to_send(made, moves);
  if (!engine_.codec(x.stage) || sum.bytes.defined()) return sum;
  sum = encoded(x, sum);
  if (!moves) {
    finished_[made] = sum.bytes;
    reducing_[made] = sum.by;
  }
  return sum;
}

RowRun::Arriving RowRun::own_sum_to_send(const std::pair<int, int>& made, bool moves) {
  if (!reducing_.contains(made)) measure_own_sum(made.first, made.second);
  Arriving sum;
  if (auto changing = reducing_.find(made); changing != reducing_.end()) sum.by = changing->second;
  if (auto finished = finished_.find(made); finished != finished_.end())
    sum.bytes = finished->second;
  sum.value = moves ? store(made.first).take_sum(made.second) : store(made.first).sum(made.second);
  if (!moves) return sum;
  reducing_.erase(made);
  finished_.erase(made);
  return sum;
}

RowRun::Arriving RowRun::take_arriving(const Name& name) {
  if (auto found = here_.extract(name)) return {found.mapped(), {}};
  auto found = arriving_.extract(name);
  PG_CHECK(found, "this rank has no such value for ", print(row_[index_]));
  return found.mapped();
}

/// The sum that lies beside this rank's own, to be folded in.
RowRun::Arriving RowRun::take_partial(int stage, int version) {
  const int first = plan_.last_micro_of(version - 1) + 1;
  auto found = arriving_.lower_bound({Value::gradient_sum, stage, first});
  PG_CHECK(found != arriving_.end() &&
               found->first < Name(Value::gradient_sum, stage, plan_.last_micro_of(version)),
           "this rank has no partial sum for ", print(row_[index_]));
  return arriving_.extract(found).mapped();
}

Tensor RowRun::take(Value what, int stage, int micro) {
  Arriving taken = take_arriving({what, stage, micro});
  wait(taken.by);
  return taken.value;
}

/// If it is on its way.
void RowRun::wait_for(const Name& name) {
  if (auto found = arriving_.extract(name)) wait(found.mapped().by);
}

/// Until the other lane is done with this rank's own sum.
void RowRun::wait_for_own_sum(int stage, int version) {
  if (auto found = reducing_.find({stage, version}); found != reducing_.end()) wait(found->second);
}

/// Until the finished sum is here: one that arrived, or this rank's own.
void RowRun::wait_for_sum(int stage, int version) {
  const Name finished{Value::gradient_sum, stage, plan_.last_micro_of(version)};
  if (!arriving_.contains(finished)) return wait_for_own_sum(stage, version);
  Tensor sum = take(Value::gradient_sum, stage, plan_.last_micro_of(version));
  store(stage).put_sum(version, sum);
}

/// Until these weights have been sent to all who are sent them, so that they can be freed.
void RowRun::wait_for_readers(int stage, int version) {
  auto readers = reading_.extract({stage, version});
  if (!readers) return;
  for (const Issued& reader : readers.mapped()) wait(reader);
}

/// It is read later: a device would have to be waited for in each forward.
void RowRun::keep_loss(int micro, const Tensor& loss) {
  if (static_cast<int>(unread_losses_.size()) == plan_.per_step) read_losses();
  const auto unread = static_cast<int>(unread_losses_.size());
  if (!losses_.defined())
    losses_ = empty({plan_.per_step}, loss.dtype(), loss.device(), Category::workspace);
  loss.backend().copy(loss, losses_.window(unread, loss.shape()));
  unread_losses_.push_back(micro);
}

void RowRun::read_losses() {
  if (unread_losses_.empty()) return;
  const std::vector<double> losses = to_host(losses_);
  for (std::size_t i = 0; i < unread_losses_.size(); ++i)
    result_.losses[unread_losses_[i]] = losses[i];
  unread_losses_.clear();
}

void RowRun::drop(const Instruction& x) {
  if (x.what == Value::activation) return engine_.runners_.at(x.stage).drop(x.micro);
  if (x.what == Value::gradient_sum) {
    wait_for_own_sum(x.stage, x.version);
    return store(x.stage).cut_sum(x.version);
  }
  wait_for_readers(x.stage, x.version);
  store(x.stage).drop(x.version);
}

}  // namespace paragrad::parallel
