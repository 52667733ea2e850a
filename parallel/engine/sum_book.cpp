// A sum is in one of three places: in the store (own), in the mailbox (arriving), or on its way.
// Chapters 05, 08 and 10.
#include "parallel/engine/sum_book.h"

#include <algorithm>

#include "parallel/codecs/factored_run.h"
#include "parallel/transports/channels.h"

namespace paragrad::parallel {

void SumBook::add(const Made& sum, const Parameter& parameter, const Tensor& dx) {
  wait_until_still(sum);
  stores_.at(sum.stage).add(sum.version, parameter, dx);
}

void SumBook::wait_until_still(const Made& sum) const {
  if (auto found = changing_.find(sum); found != changing_.end()) waiting_.wait(found->second);
}

// [snippet reduce]
void SumBook::reduce(const Instruction& x) {
  const Made made = row_.sum_of(x);
  const Tensor sum = stores_.at(x.stage).sum(x.version);
  measure(made);
  changing_[made] = mailbox_.meet(x, reduction(x, sum));
}

/// By factors, all members have the whole sum then, of which a sharded plan's need a part.
std::shared_ptr<GroupRun> SumBook::reduction(const Instruction& x, const Tensor& sum) const {
  const AllReduce how = engine_.settings().reduction;
  if (LowRank* low_rank = engine_.low_rank(x.stage)) {
    auto sum_up = [this, how, group = x.peer](const Tensor& buffer) {
      return groups_.run(all_reduce, group, buffer, how);
    };
    return std::make_shared<FactoredRun>(*low_rank, sum, x.version, sum_up);
  }
  if (how == AllReduce::by_transport)
    return std::make_shared<TransportSum>(sum, row_.plan.groups[x.peer], group_channel(x.peer));
  return groups_.run(row_.plan.sharded > 0 ? reduce_scatter : all_reduce, x.peer, sum, how,
                     {engine_.codec(x.stage), x.version});
}
// [end snippet]

/// Before anything is added to this rank's part: what was encoded once has no error any more.
void SumBook::measure(const Made& sum) {
  const CodecSpec& spec = row_.plan.codec;
  if (!spec.kind().chooses_bits || sum.version % spec.period != 0) return;
  if (!measured_.insert(sum.stage).second) return;
  measured_options_.merge(
      engine_.codec(sum.stage)->bit_options(stores_.at(sum.stage).sum(sum.version)));
}

void SumBook::fold(const Instruction& x) {
  const Made made = row_.sum_of(x);
  measure(made);
  const int first = row_.plan.last_micro_of(made.version - 1) + 1;
  const Arriving partial =
      mailbox_.take_first({Value::gradient_sum, x.stage, first}, row_.finished_name(made));
  const Tensor own = stores_.at(x.stage).sum(made.version);
  auto add = [own, arrived = partial.value] { own.backend().accumulate(arrived, own); };
  changing_[made] = mailbox_.work({Queue::Kind::own_sum, x.stage}, partial.by, add,
                                  std::make_shared<std::int64_t>(0));
  if (!engine_.codec(x.stage) || !row_.is_finished(x.micro) || !row_.sent.contains(made)) return;
  // All who step with it are to have the same bits, this rank too, and before anybody reads it.
  Arriving finished = encoded(x, {own, changing_[made]});
  changing_[made] = finished.by;
  codes_[made] = finished.bytes;
}

void SumBook::send(const Instruction& x) { mailbox_.send(x, to_send(x)); }

/// One that arrived by this name, or this rank's own. It moves, unless the row still steps with it.
Arriving SumBook::to_send(const Instruction& x) {
  const Made made = row_.sum_of(x);
  const bool moves = !row_.is_finished(x.micro) || !row_.stepped.contains(made);
  const Arriving* arrived = mailbox_.arriving(value_of(x));
  Arriving sum = !arrived ? own_to_send(made, moves)
                 : moves  ? mailbox_.take(value_of(x))
                          : *arrived;
  if (!engine_.codec(x.stage) || sum.bytes.defined()) return sum;
  sum = encoded(x, sum);
  if (!moves) {
    codes_[made] = sum.bytes;
    changing_[made] = sum.by;
  }
  return sum;
}

Arriving SumBook::own_to_send(const Made& made, bool moves) {
  if (!changing_.contains(made)) measure(made);
  Arriving sum;
  if (auto changing = changing_.find(made); changing != changing_.end()) sum.by = changing->second;
  if (auto code = codes_.find(made); code != codes_.end()) sum.bytes = code->second;
  StageBuffers& store = stores_.at(made.stage);
  sum.value = moves ? store.take_sum(made.version) : store.sum(made.version);
  if (!moves) return sum;
  changing_.erase(made);
  codes_.erase(made);
  return sum;
}

// [snippet encoded]
/// The sum's code, which is made on the other lane; a finished sum becomes what receivers make of
/// it.
Arriving SumBook::encoded(const Instruction& x, const Arriving& sum) {
  BufferCodec* codec = engine_.codec(x.stage);
  const Tensor bytes = room_for_code(*codec, sum.value);
  auto encode = [=, version = row_.sum_of(x).version, finished = row_.is_finished(x.micro)] {
    codec->encode(sum.value, {0, sum.value.numel()}, version, finished, bytes);
  };
  return {sum.value, mailbox_.work({Queue::Kind::own_sum, x.stage}, sum.by, encode), bytes};
}
// [end snippet]

Tensor SumBook::room_for_code(const BufferCodec& codec, const Tensor& sum) const {
  return empty({codec.encoded_bytes({0, sum.numel()})}, DType::u8, sum.device(),
               Category::communication);
}

void SumBook::receive(const Instruction& x) {
  const Tensor sum = stores_.at(x.stage).new_sum();
  BufferCodec* codec = engine_.codec(x.stage);
  if (!codec) return mailbox_.receive(x, sum);
  const Tensor bytes = room_for_code(*codec, sum);
  auto decode = [=] { codec->decode(bytes, {0, sum.numel()}, sum); };
  mailbox_.receive(x, sum, bytes, decode, row_.is_finished(x.micro));
}

void SumBook::drop(const Instruction& x) {
  wait_until_still(row_.sum_of(x));
  stores_.kept(x.stage).cut_sum(x.version);
}

void SumBook::finish(const Made& sum) {
  const Name name = row_.finished_name(sum);
  if (!mailbox_.arriving(name)) return wait_until_still(sum);
  stores_.at(sum.stage).put_sum(sum.version, mailbox_.take_value(name));
}

bool SumBook::is_counted(const Made& sum, const std::vector<int>& group) const {
  if (row_.plan.sharded > 0) return true;
  const std::vector<int>& holders = row_.holders.at(sum.stage);
  const auto changing = changing_.find(sum);
  const bool in_group = changing != changing_.end() && meets(row_.row[changing->second.cell]);
  if (holders.size() > 1 && !in_group) return stores_.at(sum.stage).has_sum(sum.version);
  auto first = std::find_first_of(group.begin(), group.end(), holders.begin(), holders.end());
  return first != group.end() && *first == row_.rank;
}

std::vector<TicketPtr> SumBook::changes(int version) const {
  std::vector<TicketPtr> tickets;
  for (const auto& [sum, work] : changing_)
    if (sum.version == version) tickets.push_back(work.ticket);
  return tickets;
}

}  // namespace paragrad::parallel
