// Messages between two ranks: lists of handles. A receive posts; whoever needs the value
// waits for it.
// Chapter 04.
#include <algorithm>

#include "parallel/serial.h"

namespace paragrad::parallel {

bool Serial::send(int rank, const Instruction& x) {
  Rank& here = ranks_[rank];
  Channel& channel = channels_[{rank, x.peer}];
  if (x.what == Value::weights) {
    channel.sent.push_back(here.weights.at({x.stage, x.version}));
  } else if (x.what == Value::gradient_sum) {
    channel.sent.push_back(sum_to_send(rank, x));
  } else if (x.what == Value::turn) {
    channel.sent.push_back({});
  } else {
    auto value = here.values.extract({x.what, x.stage, x.micro});
    if (!value) return false;
    channel.sent.push_back(value.mapped());
  }
  deliver(channel);
  return true;
}

/// One that arrived, or the rank's own. It moves, unless the row still steps with it.
Tensor Serial::sum_to_send(int rank, const Instruction& x) {
  Rank& here = ranks_[rank];
  const int version = plan_->made_by(x.micro);
  const Row& row = plan_->rows[rank];
  auto is_step = [&](const Instruction& y) {
    return y.op == Op::step && y.stage == x.stage && y.version == version;
  };
  const bool moves =
      x.micro != plan_->last_micro_of(version) || std::none_of(row.begin(), row.end(), is_step);
  if (auto arrived = here.values.find({x.what, x.stage, x.micro}); arrived != here.values.end())
    return moves ? here.values.extract(arrived).mapped() : arrived->second;
  Tensor own = here.sums.at({x.stage, version});
  if (moves) here.sums.erase({x.stage, version});
  return own;
}

void Serial::receive(int rank, const Instruction& x) {
  Channel& channel = channels_[{x.peer, rank}];
  Name name{x.what, x.stage, x.what == Value::weights ? x.version : x.micro};
  ranks_[rank].awaited.insert(name);
  channel.posted.push_back({rank, name});
  deliver(channel);
}

/// arrived + own
bool Serial::fold(Rank& rank, const Instruction& x) {
  const int version = plan_->made_by(x.micro);
  const Name first{Value::gradient_sum, x.stage, plan_->last_micro_of(version - 1) + 1};
  const Name last{Value::gradient_sum, x.stage, plan_->last_micro_of(version)};
  auto arrived = rank.values.lower_bound(first);
  if (arrived == rank.values.end() || arrived->first >= last) return false;
  Tensor& own = rank.sums.at({x.stage, version});
  own.backend().accumulate(arrived->second, own);
  rank.values.erase(arrived);
  return true;
}

void Serial::deliver(Channel& channel) {
  while (!channel.sent.empty() && !channel.posted.empty()) {
    auto [rank, name] = channel.posted.front();
    auto [what, stage, number] = name;
    Rank& here = ranks_[rank];
    here.awaited.erase(name);
    if (what == Value::weights)
      here.weights[{stage, number}] = channel.sent.front();
    else if (what != Value::turn)
      here.values[name] = channel.sent.front();
    channel.sent.pop_front();
    channel.posted.pop_front();
  }
}

}  // namespace paragrad::parallel
