// Sums that go from rank to rank, and the norm of all of them.
// Not here: reductions by groups (row_messages.cpp); who has which sum (row_values.cpp).
// Chapters 08 and 10.
#include "parallel/engine/row_run.h"

namespace paragrad::parallel {

/// Work of the other lane on a stage's sums, in the order of the row, none before `before`. It is
/// no message, so it leaves no record.
RowRun::Issued RowRun::on_sums(int stage, const Issued& before, std::function<void()> work) {
  auto task = [work = std::move(work), ticket = before.ticket](Transport&) {
    if (ticket && !ticket->done) return false;
    work();
    return true;
  };
  return {index_, lane_.post(of_stage(stage), task), nullptr,
          before.ticket ? std::make_shared<const Issued>(before) : nullptr};
}

/// Before anything is added to this rank's part: what was encoded once has no error any more.
void RowRun::measure_own_sum(int stage, int version) {
  const CodecSpec& spec = plan_.codec;
  if (!spec.kind().chooses_bits || version % spec.period != 0) return;
  if (!measured_.insert(stage).second) return;
  result_.bit_options.merge(engine_.codec(stage)->bit_options(store(stage).sum(version)));
}

/// arrived + own, as soon as the one is here and the other lane has no other work on the
/// stage's sums.
void RowRun::fold(const Instruction& x) {
  const int version = plan_.made_by(x.micro);
  const std::pair<int, int> name{x.stage, version};
  measure_own_sum(x.stage, version);
  Arriving partial = take_partial(x.stage, version);
  const Tensor own = store(x.stage).sum(version);
  auto add = [own, arrived = partial.value](Transport&) {
    own.backend().accumulate(arrived, own);
    return true;
  };
  issue_after(partial.by, of_stage(x.stage), add, std::make_shared<std::int64_t>(0));
  reducing_[name] = issued_.back();
  if (!engine_.codec(x.stage) || !is_finished(x) || !sent_.contains(name)) return;
  // All who step with it are to have the same bits, this rank too, and before anybody reads it.
  Arriving finished = encoded(x, {own, reducing_[name]});
  reducing_[name] = finished.by;
  finished_[name] = finished.bytes;
}

// [snippet encoded]
/// The sum's code, which is made on the other lane; a finished sum becomes what receivers make of
/// it.
RowRun::Arriving RowRun::encoded(const Instruction& x, const Arriving& sum) {
  BufferCodec* codec = engine_.codec(x.stage);
  Tensor bytes = room_for_code(*codec, sum.value);
  auto encode = [=, version = plan_.made_by(x.micro), finished = is_finished(x)] {
    codec->encode(sum.value, {0, sum.value.numel()}, version, finished, bytes);
  };
  return {sum.value, on_sums(x.stage, sum.by, encode), bytes};
}
// [end snippet]

/// Evaluations, whose plans name no codec, send activations as they are.
ChannelCodec* RowRun::channel_of(const Instruction& x) const {
  const bool encodes = x.what == Value::activation || x.what == Value::activation_gradient;
  return encodes && !plan_.channel.is_none() ? engine_.channel() : nullptr;
}

Tensor RowRun::room_for_code(const ChannelCodec& codec, const Instruction& x,
                             const Tensor& value) const {
  return empty({codec.encoded_bytes(x, value.numel(), value.dtype())}, DType::u8, engine_.device_,
               Category::communication);
}

Tensor RowRun::room_for_code(const BufferCodec& codec, const Tensor& sum) const {
  return empty({codec.encoded_bytes({0, sum.numel()})}, DType::u8, engine_.device_,
               Category::communication);
}

/// Each member fills in the squares that it counts and zeros elsewhere, so that summing up is exact
/// and does not depend on how the model is cut, unless shards cut a parameter: its parts are then
/// added in rank order. Two orders of n terms that are not negative give sums within a share
/// 2 (n - 1) u of each other, so norms within n u, u = 2^-53 (Higham 2002, section 4.2).
void RowRun::norm(const Instruction& x) {
  if (plan_.groups[x.peer].size() == 1) return;  // whole_squares() needs no messages
  Gradients gradients = counted_gradients(x.version, plan_.groups[x.peer]);
  const auto count = static_cast<std::int64_t>(engine_.training_.whole.size());
  CategoryScope category(*engine_.host_, Category::communication);
  Tensor squares = empty({count}, DType::f64, engine_.host_);
  auto run = collective(all_reduce, x.peer, squares, AllReduce::scatter_reduce);
  std::vector<TicketPtr> sums;
  for (const auto& [name, reducing] : reducing_)
    if (name.second == x.version) sums.push_back(reducing.ticket);
  for (const Gradient& gradient : gradients)
    if (gradient.by) sums.push_back(gradient.by);
  auto begin = [this, squares, gradients, sums] {
    for (const TicketPtr& sum : sums)
      if (!sum->done) return false;
    squares.backend().copy_from_host(squares_of(gradients).data(), squares);
    return true;
  };
  issue_collective(x.peer, run, begin);
  norming_[x.version] = {issued_.back(), squares};
}

}  // namespace paragrad::parallel
