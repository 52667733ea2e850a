// Sums in the serial interpreter: by groups, and from rank to rank. Chapters 05 and 10.

#include "parallel/collectives/collective_run.h"
#include "tests/parallel/support/carry_out.h"
#include "tests/parallel/support/serial.h"

namespace plangrad::parallel {
namespace {

/// One member's side of a collective. With a codec, what arrives is what the receiver decodes.
class Member {
 public:
  Member(Tensor values, BufferCodec* codec, int version, bool same, const std::vector<Piece>& list)
      : values_(std::move(values)), codec_(codec), version_(version), same_(same) {
    for (const Piece& piece : list)
      if (piece.action == Exchange::Action::copy) replaced_.insert(piece.range.begin);
  }

  Tensor send(const Piece& piece) {
    Tensor x = part(piece);
    Tensor arrives = empty_like(x);
    x.backend().copy(x, arrives);
    if (!codec_ || shared_.contains(piece.range.begin)) return arrives;
    const bool final = same_ && !replaced_.contains(piece.range.begin);
    Tensor bytes = empty({codec_->encoded_bytes(piece.range)}, DType::u8, x.device());
    codec_->encode(x, piece.range, version_, final, bytes);
    codec_->decode(bytes, piece.range, arrives);
    if (final) shared_.insert(piece.range.begin);
    return arrives;
  }

  void take(const Piece& piece, const Tensor& arrived) {
    Tensor x = part(piece);
    if (piece.action == Exchange::Action::copy) {
      shared_.insert(piece.range.begin);
      return x.backend().copy(arrived, x);
    }
    if (carried_.defined()) x.backend().accumulate(carried_, arrived);
    carried_ = piece.action == Exchange::Action::carry ? arrived : Tensor();
    if (piece.action == Exchange::Action::add) x.backend().accumulate(arrived, x);
  }

 private:
  Tensor part(const Piece& piece) const {
    return values_.window(piece.range.begin, {piece.range.size()});
  }

  Tensor values_, carried_;
  BufferCodec* codec_;
  int version_;
  bool same_;                        // all members end with the same values
  std::set<std::int64_t> replaced_;  // pieces that a copy replaces, by their first element
  std::set<std::int64_t> shared_;    // pieces of which this member has what all are to have
};

}  // namespace

void Serial::set_bits(const Bits& bits) {
  for (Rank& rank : ranks_)
    for (auto& [stage, codec] : rank.codecs) codec.set_bits(bits);
}

BufferCodec* Serial::codec(Rank& rank, int stage) {
  auto found = rank.codecs.find(stage);
  return found == rank.codecs.end() ? nullptr : &found->second;
}

Summing Serial::summing(const std::vector<int>& group) const {
  Summing how{reduction_};
  if (!hosts_.empty())
    for (int rank : group) how.hosts.push_back(hosts_.at(rank));
  return how;
}

void Serial::add_up(const Instruction& x, const std::vector<int>& group) {
  std::vector<Tensor> sums;
  for (int rank : group) sums.push_back(sum(ranks_[rank], x.stage, x.version));
  if (!plan_->codec.is_none() && !is_local(plan_->codec))
    sum_factors(x, group, sums);
  else
    sum_up(group, plan_->sharded > 0 ? reduce_scatter : all_reduce, sums, x.stage, x.version);
  for (std::size_t member = 0; member < group.size(); ++member)
    sum(ranks_[group[member]], x.stage, x.version) =
        only_own(ranks_[group[member]], x.stage, sums[member]);
}

/// Every member's list, as the engine's ranks run them, with copies in place of messages. Of a
/// version that is not given nothing is encoded.
void Serial::sum_up(const std::vector<int>& group, MakeCollective make,
                    const std::vector<Tensor>& sums, int stage, int version) {
  const int members = static_cast<int>(group.size());
  std::vector<std::vector<Piece>> lists;
  std::vector<Member> seats;
  for (int member = 0; member < members; ++member) {
    const Tensor& values = sums[member];
    const Collective list = make(summing(group), member, members);
    lists.push_back(cut(list, values.numel(), default_piece / size_of(values.dtype())));
    BufferCodec* own = version < 0 ? nullptr : codec(ranks_[group[member]], stage);
    seats.emplace_back(values, own, version, list.same, lists[member]);
  }
  carry_out(
      lists, [&](int member, const Piece& piece) { return seats[member].send(piece); },
      [&](int member, const Piece& piece, const Tensor& arrived) {
        seats[member].take(piece, arrived);
      });
}

void Serial::sum_factors(const Instruction& x, const std::vector<int>& group,
                         const std::vector<Tensor>& sums) {
  std::vector<LowRank*> members;
  for (int rank : group) members.push_back(ranks_[rank].low_ranks.at(x.stage).get());
  std::vector<Tensor> first, second;
  for (std::size_t i = 0; i < members.size(); ++i)
    first.push_back(members[i]->first_factors(sums[i], x.version));
  sum_up(group, all_reduce, first, x.stage, -1);
  for (LowRank* member : members) second.push_back(member->second_factors());
  if (second.front().defined()) sum_up(group, all_reduce, second, x.stage, -1);
  for (std::size_t i = 0; i < members.size(); ++i) members[i]->finish(sums[i]);
}

/// One that arrived, or the rank's own. It moves, unless the row still steps with it.
Tensor Serial::sum_to_send(int rank, const Instruction& x) {
  Rank& here = ranks_[rank];
  const int version = plan_->made_by(x.micro);
  const Row& row = plan_->rows[rank];
  auto is_step = [&](const Instruction& y) {
    return y.op == Op::step && y.stage == x.stage && y.version == version;
  };
  const bool finished = x.micro == plan_->last_micro_of(version);
  const bool moves = !finished || std::none_of(row.begin(), row.end(), is_step);
  if (auto arrived = here.values.find({x.what, x.stage, x.micro}); arrived != here.values.end()) {
    Tensor sum = moves ? here.values.extract(arrived).mapped() : arrived->second;
    return finished ? sum : encoded(here, x, sum);  // a finished one has been encoded
  }
  Tensor own = here.sums.at({x.stage, version});
  if (moves) here.sums.erase({x.stage, version});
  return finished && here.encoded.contains({x.stage, version}) ? own : encoded(here, x, own);
}

/// The values that the receiver of an activation, or of its gradient, decodes.
Tensor Serial::through_channel(int from, const Instruction& x, const Tensor& value) {
  if (plan_->channel.is_none()) return value;
  ChannelCodec& codec = *ranks_[from].channel;
  Tensor bytes = empty({codec.encoded_bytes(x, value.numel(), value.dtype())}, DType::u8, device_);
  codec.encode(x, value, bytes);
  Tensor arrives = empty_like(value);
  ranks_[x.peer].channel->decode(x, bytes, arrives);
  return arrives;
}

/// The values that the receiver of a sum decodes; a finished sum becomes them itself.
Tensor Serial::encoded(Rank& rank, const Instruction& x, const Tensor& sum) {
  BufferCodec* codec = this->codec(rank, x.stage);
  if (!codec) return sum;
  const int version = plan_->made_by(x.micro);
  const bool finished = x.micro == plan_->last_micro_of(version);
  const Range all{0, sum.numel()};
  Tensor bytes = empty({codec->encoded_bytes(all)}, DType::u8, device_);
  codec->encode(sum, all, version, finished, bytes);
  if (finished) rank.encoded.insert({x.stage, version});
  Tensor arrives = empty_like(sum);
  codec->decode(bytes, all, arrives);
  return arrives;
}

/// arrived + own
bool Serial::fold(int number, const Instruction& x) {
  Rank& rank = ranks_[number];
  const int version = plan_->made_by(x.micro);
  const Name first{Value::gradient_sum, x.stage, plan_->last_micro_of(version - 1) + 1};
  const Name last{Value::gradient_sum, x.stage, plan_->last_micro_of(version)};
  auto arrived = rank.values.lower_bound(first);
  if (arrived == rank.values.end() || arrived->first >= last) return false;
  Tensor& own = rank.sums.at({x.stage, version});
  own.backend().accumulate(arrived->second, own);
  rank.values.erase(arrived);
  const Row& row = plan_->rows[number];
  const bool sent = std::any_of(row.begin(), row.end(), [&](const Instruction& y) {
    return y.op == Op::send && y.what == x.what && y.stage == x.stage && y.micro == x.micro;
  });
  if (sent && x.micro == plan_->last_micro_of(version)) encoded(rank, x, own);
  return true;
}

}  // namespace plangrad::parallel
