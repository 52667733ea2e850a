// The message half of the interpreter: what is handed to the other lane, and in which queue.
// Not here: the values (row_values.cpp), and waiting for them (row_waiting.cpp).
// Chapter 04.
#include <algorithm>

#include "parallel/engine/row_run.h"
#include "parallel/transports/channels.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {
namespace {

// Queues of the message lane.
int to_peer(int rank) { return 2 * rank; }
int from_peer(int rank) { return 2 * rank + 1; }
int of_group(int group) { return -1 - 2 * group; }

/// A turn has no value.
Message message_with(const Tensor& value, int peer) {
  if (!value.defined()) return {peer, plan_channel, nullptr, 0};
  return {peer, plan_channel, value.raw(), value.bytes()};
}

/// A message that is started once, when its turn comes. The request dies before `start`, which
/// holds the memory that another rank may be copying to; and on the lane's thread, which alone uses
/// the transport: who posts the task keeps no copy of it.
template <class Start>
MessageLane::Task one_message(Start start) {
  auto message = std::make_shared<std::pair<Start, std::unique_ptr<Request>>>(start, nullptr);
  return [message](Transport& transport) {
    auto& [start, request] = *message;
    if (!request) request = start(transport);
    return request->done();
  };
}

}  // namespace

double RowRun::seconds(Clock::time_point time) const {
  return std::chrono::duration<double>(time - begin_).count();
}

void RowRun::issue(int queue, MessageLane::Task task, Bytes bytes) {
  issued_.push_back({index_, lane_.post(queue, std::move(task)), bytes});
}

/// The task's turn in its queue comes no sooner than `before` is through, if that is a message.
void RowRun::issue_after(const Issued& before, int queue, MessageLane::Task task, Bytes bytes) {
  if (!before.ticket) return issue(queue, std::move(task), bytes);
  auto later = [task = std::move(task), ticket = before.ticket](Transport& transport) {
    return ticket->done && task(transport);
  };
  issue(queue, std::move(later), bytes);
  issued_.back().before = std::make_shared<const Issued>(before);
}

/// Waits for all messages that are under way, and writes them down.
void RowRun::finish_messages() {
  for (const Issued& message : issued_) wait(message);
  for (const Issued& message : issued_) {
    const Instruction& x = row_[message.index];
    std::int64_t bytes = *message.bytes;
    if (bytes > 0) result_.bytes_sent[message_kind(x)] += bytes;
    result_.records.push_back({engine_.transport_.rank(), Lane::message, x,
                               seconds(message.ticket->issued), seconds(message.ticket->finished),
                               bytes});
  }
}

void RowRun::send(const Instruction& x) {
  Arriving sent = value_to_send(x);
  ChannelCodec* channel = channel_of(x);
  const Tensor value = channel                ? room_for_code(*channel, x, sent.value)
                       : sent.bytes.defined() ? sent.bytes
                                              : sent.value;
  Message message = message_with(value, x.peer);
  auto start = [=, raw = sent.value](Transport& transport) {
    if (channel) channel->encode(x, raw, value);
    return transport.send(message);
  };
  bound_sends(x.peer);
  auto bytes = std::make_shared<std::int64_t>(message.bytes);
  issue_after(sent.by, to_peer(x.peer), one_message(start), bytes);
  sending_[x.peer].push_back(issued_.back());
  if (x.what == Value::weights) reading_[{x.stage, x.version}].push_back(issued_.back());
}

/// Values that wait to be sent take memory, so a rank that is ahead waits once the channel's
/// capacity and two more are under way. The verifier has proved that such waiting ends, in the
/// order of the row; in a message-driven plan, what is in flight is bounded anyway.
void RowRun::bound_sends(int peer) {
  if (plan_.in_flight > 0) return;
  auto& sending = sending_[peer];
  while (sending.size() >= capacity_ + 2) {
    wait(sending.front());
    sending.pop_front();
  }
}

void RowRun::receive(const Instruction& x) {
  Tensor value = room_for(x);
  ChannelCodec* channel = channel_of(x);
  BufferCodec* codec = x.what == Value::gradient_sum ? engine_.codec(x.stage) : nullptr;
  Tensor bytes = channel ? room_for_code(*channel, x, value)
                 : codec ? room_for_code(*codec, value)
                         : Tensor();
  const Tensor& target = bytes.defined() ? bytes : value;
  auto start = [target, message = message_with(target, x.peer)](Transport& transport) {
    return transport.receive(message);
  };
  MessageLane::Task task = one_message(start);
  if (bytes.defined())
    task = [=](Transport& transport) {
      if (!task(transport)) return false;
      if (channel)
        channel->decode(x, bytes, value);
      else
        codec->decode(bytes, {0, value.numel()}, value);
      return true;
    };
  issue(from_peer(x.peer), std::move(task), std::make_shared<std::int64_t>(0));
  arriving_[name_of(x)] = {value, issued_.back(), codec && is_finished(x) ? bytes : Tensor()};
}

std::shared_ptr<CollectiveRun> RowRun::collective(MakeCollective make, int group, const Tensor& x,
                                                  AllReduce how,
                                                  CollectiveRun::Encoding encoding) const {
  const std::vector<int>& ranks = plan_.groups[group];
  auto member = std::find(ranks.begin(), ranks.end(), engine_.transport_.rank()) - ranks.begin();
  Summing summing{how};
  if (!engine_.settings_.hosts.empty())
    for (int rank : ranks) summing.hosts.push_back(engine_.settings_.hosts.at(rank));
  Collective steps = make(summing, static_cast<int>(member), static_cast<int>(ranks.size()));
  return std::make_shared<CollectiveRun>(steps, x, ranks, group_channel(group),
                                         CollectiveRun::default_piece, encoding);
}

/// Begins once begin() returns true, where it is given, and tells its bytes when it is over.
void RowRun::issue_collective(int group, std::shared_ptr<GroupRun> run,
                              std::function<bool()> begin) {
  auto bytes = std::make_shared<std::int64_t>(0);
  auto task = [run, begin, bytes, begun = !begin](Transport& transport) mutable {
    begun = begun || begin();
    if (!begun || !run->advance(transport)) return false;
    *bytes = run->bytes_sent();
    return true;
  };
  issue(of_group(group), std::move(task), bytes);
}

// [snippet reduce]
void RowRun::reduce(const Instruction& x) {
  const Tensor sum = store(x.stage).sum(x.version);
  measure_own_sum(x.stage, x.version);
  if (LowRank* low_rank = engine_.low_rank(x.stage))
    issue_collective(x.peer, by_factors(x, sum, *low_rank));
  else if (engine_.settings_.reduction == AllReduce::by_transport)
    issue_collective(
        x.peer, std::make_shared<TransportSum>(sum, plan_.groups[x.peer], group_channel(x.peer)));
  else
    issue_collective(x.peer,
                     collective(plan_.sharded > 0 ? reduce_scatter : all_reduce, x.peer, sum,
                                engine_.settings_.reduction, {engine_.codec(x.stage), x.version}));
  reducing_[{x.stage, x.version}] = issued_.back();
}

/// All members have the whole sum then, of which a sharded plan's need a part.
std::shared_ptr<GroupRun> RowRun::by_factors(const Instruction& x, const Tensor& sum,
                                             LowRank& low_rank) const {
  auto sum_up = [this, group = x.peer](const Tensor& buffer) {
    return collective(all_reduce, group, buffer, engine_.settings_.reduction);
  };
  return std::make_shared<FactoredRun>(low_rank, sum, x.version, sum_up);
}

/// Computations wait for it where they need it: what stands between is its time to run.
void RowRun::gather(const Instruction& x) {
  Tensor whole = store(x.stage).bring_shard(x.version);
  issue_collective(x.peer, collective(all_gather, x.peer, whole, engine_.settings_.reduction));
  arriving_[name_of(x)] = {whole, issued_.back()};
}
// [end snippet]

}  // namespace paragrad::parallel
