// A sum is in one of three places: in the store (own), in the mailbox (arriving), or on its way.
// Chapters 05, 08 and 10.
#include "parallel/engine/sum_book.h"

namespace plangrad::parallel {

Stage::ParameterSink SumBook::sink(const Made& sum) {
  auto buffers = [this, sum](const Parameter& parameter) -> StageBuffers& {
    const int stage = parameter.shared ? run_.plan.stages : sum.stage;
    wait_until_still({stage, sum.version});
    return run_.stage(stage);
  };
  return {[=](const Parameter& p, const Tensor& dx) { buffers(p).add(sum.version, p, dx); },
          [=](const Parameter& p) { return buffers(p).place(sum.version, p); }};
}

void SumBook::wait_until_still(const Made& sum) const {
  if (auto found = changing_.find(sum); found != changing_.end()) waiting_.wait(found->second.by);
}

// [snippet reduce]
void SumBook::reduce(const Instruction& x) {
  const Made made = run_.sum_of(x);
  const Tensor sum = run_.stage(x.stage).sum(x.version);
  measure(made);
  changing_[made] = {mailbox_.meet(x, reduction(x, sum))};
}

/// This rank's part of a reduction. By factors, all members get the whole sum, sharded or not.
std::shared_ptr<GroupRun> SumBook::reduction(const Instruction& x, const Tensor& sum) const {
  const AllReduce how = run_.engine.settings().reduction;
  if (LowRank* low_rank = run_.engine.low_rank(x.stage)) {
    auto sum_up = [this, how, group = x.peer](const Tensor& buffer) {
      return run_.in_group(group, Joint::all_reduce, buffer, how);
    };
    return std::make_shared<FactoredRun>(*low_rank, sum, x.version, sum_up);
  }
  const Joint what = run_.plan.sharded > 0 ? Joint::reduce_scatter : Joint::all_reduce;
  return run_.in_group(x.peer, what, sum, how, {run_.engine.codec(x.stage), x.version});
}
// [end snippet]

/// Measures an own sum before others are added: what was encoded before has no error any more.
void SumBook::measure(const Made& sum) {
  const CodecSpec& spec = run_.plan.codec;
  if (!spec.kind().chooses_bits || sum.version % spec.period != 0) return;
  if (!measured_.insert(sum.stage).second) return;
  run_.result.bit_options.merge(
      run_.engine.codec(sum.stage)->bit_options(run_.stage(sum.stage).sum(sum.version)));
}

void SumBook::fold(const Instruction& x) {
  const Made made = run_.sum_of(x);
  measure(made);
  const int first = run_.plan.last_micro_of(made.version - 1) + 1;
  const Arriving partial =
      mailbox_.take_first({Value::gradient_sum, x.stage, first}, run_.finished_name(made));
  const Tensor own = run_.stage(x.stage).sum(made.version);
  auto add = [own, arrived = partial.value] { own.backend().accumulate(arrived, own); };
  const Issued added = mailbox_.work({Queue::Kind::own_sum, x.stage}, partial.by, add,
                                     std::make_shared<std::int64_t>(0));
  changing_[made] = {added};
  if (!run_.engine.codec(x.stage) || !run_.plan.ends_step(x.micro) || !run_.sent.contains(x.stage))
    return;
  // All ranks that step with it get the same bits, this rank too, before any of them reads it.
  const Arriving finished = encoded(x, {own, added});
  changing_[made] = {finished.by, finished.bytes};
}

/// The sum to send, arrived or own. It leaves this rank, unless the row still steps with it.
Arriving SumBook::to_send(const Instruction& x) {
  const Made made = run_.sum_of(x);
  const bool moves = !run_.plan.ends_step(x.micro) || !run_.stepped.contains(x.stage);
  const Arriving* arrived = mailbox_.arriving(value_of(x));
  Arriving sum = !arrived ? own_to_send(made, moves)
                 : moves  ? mailbox_.take(value_of(x))
                          : *arrived;
  if (!run_.engine.codec(x.stage) || sum.bytes.defined()) return sum;
  sum = encoded(x, sum);
  if (!moves) changing_[made] = {sum.by, sum.bytes};
  return sum;
}

Arriving SumBook::own_to_send(const Made& made, bool moves) {
  if (!changing_.contains(made)) measure(made);
  Arriving sum;
  StageBuffers& store = run_.stage(made.stage);
  sum.value = moves ? store.take_sum(made.version) : store.sum(made.version);
  if (auto changing = changing_.find(made); changing != changing_.end()) {
    sum.by = changing->second.by;
    sum.bytes = changing->second.bytes;
    if (moves) changing_.erase(changing);
  }
  return sum;
}

// [snippet encoded]
/// Encodes a sum on the other lane; a finished sum takes the values that its receivers decode.
Arriving SumBook::encoded(const Instruction& x, const Arriving& sum) {
  BufferCodec* codec = run_.engine.codec(x.stage);
  const Range all{0, sum.value.numel()};
  const Tensor bytes = room_for_code(codec->encoded_bytes(all), sum.value.device());
  auto encode = [=, version = run_.sum_of(x).version, finished = run_.plan.ends_step(x.micro)] {
    codec->encode(sum.value, all, version, finished, bytes);
  };
  return {sum.value, mailbox_.work({Queue::Kind::own_sum, x.stage}, sum.by, encode), bytes};
}
// [end snippet]

void SumBook::receive(const Instruction& x) {
  const Tensor sum = run_.stage(x.stage).new_sum();
  BufferCodec* codec = run_.engine.codec(x.stage);
  if (!codec) return mailbox_.receive(x, sum);
  const Range all{0, sum.numel()};
  const Tensor bytes = room_for_code(codec->encoded_bytes(all), sum.device());
  auto decode = [=] { codec->decode(bytes, all, sum); };
  mailbox_.receive(x, sum, bytes, decode, run_.plan.ends_step(x.micro));
}

void SumBook::drop(const Instruction& x) {
  wait_until_still(run_.sum_of(x));
  run_.kept(x.stage).cut_sum(x.version);
}

void SumBook::finish(const Made& sum) {
  const Name name = run_.finished_name(sum);
  if (!mailbox_.arriving(name)) return wait_until_still(sum);
  run_.stage(sum.stage).put_sum(sum.version, mailbox_.take_value(name));
}

bool SumBook::is_counted(const Made& sum, const std::vector<int>& group) const {
  if (run_.plan.sharded > 0) return true;
  const std::vector<int>& holders = run_.holders.at(sum.stage);
  const auto changing = changing_.find(sum);
  const bool in_group = changing != changing_.end() && meets(run_.at(changing->second.by.cell));
  if (holders.size() > 1 && !in_group) return run_.stage(sum.stage).has_sum(sum.version);
  auto first = std::find_first_of(group.begin(), group.end(), holders.begin(), holders.end());
  return first != group.end() && *first == run_.rank;
}

std::vector<TicketPtr> SumBook::changes(int version) const {
  std::vector<TicketPtr> tickets;
  for (const auto& [sum, change] : changing_)
    if (sum.version == version) tickets.push_back(change.by.ticket);
  return tickets;
}

}  // namespace plangrad::parallel
