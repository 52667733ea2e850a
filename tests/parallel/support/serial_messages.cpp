// Messages between two ranks: lists of handles. A receive posts; whoever needs the value
// waits for it. Chapter 04.

#include "tests/parallel/support/serial.h"

namespace plangrad::parallel {

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
    channel.sent.push_back(through_channel(rank, x, value.mapped()));
  }
  deliver(channel);
  return true;
}

void Serial::receive(int rank, const Instruction& x) {
  Channel& channel = channels_[{x.peer, rank}];
  Name name{x.what, x.stage, x.what == Value::weights ? x.version : x.micro};
  ranks_[rank].awaited.insert(name);
  channel.posted.push_back({rank, name});
  deliver(channel);
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

}  // namespace plangrad::parallel
