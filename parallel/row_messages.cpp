// The message half of the interpreter: what is handed to the other lane, and in which queue.
// Not here: the values (row_values.cpp), and waiting for them (row_waiting.cpp).
// Chapter 04.
#include <algorithm>

#include "parallel/row_run.h"
#include "parallel/transports/channels.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {
namespace {

// Queues of the message lane.
int to_peer(int rank) { return 2 * rank; }
int from_peer(int rank) { return 2 * rank + 1; }
int of_group(int group) { return -1 - 2 * group; }
int of_stage(int stage) { return -2 - 2 * stage; }

/// A turn has no value.
Message message_with(const Tensor& value, int peer) {
  if (!value.defined()) return {peer, plan_channel, nullptr, 0};
  return {peer, plan_channel, value.raw(), value.bytes()};
}

/// A message that is started once, when its turn comes. The request dies before `start`, which
/// holds the memory that another rank may be copying to.
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
  issue(queue, later, bytes);
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
  Message message = message_with(sent.value, x.peer);
  auto start = [value = sent.value, message](Transport& transport) {
    return transport.send(message);
  };
  bound_sends(x.peer);
  auto bytes = std::make_shared<std::int64_t>(message.bytes);
  issue_after(sent.by, to_peer(x.peer), one_message(start), bytes);
  sending_[x.peer].push_back(issued_.back());
  if (x.what == Value::weights) reading_[{x.stage, x.version}].push_back(issued_.back());
}

/// Values that wait to be sent take memory, so a rank that is ahead waits once the channel's
/// capacity and two more are under way. The verifier has proved that such waiting ends.
void RowRun::bound_sends(int peer) {
  auto& sending = sending_[peer];
  while (sending.size() >= capacity_ + 2) {
    wait(sending.front());
    sending.pop_front();
  }
}

void RowRun::receive(const Instruction& x) {
  Tensor value = room_for(x);
  auto start = [value, message = message_with(value, x.peer)](Transport& transport) {
    return transport.receive(message);
  };
  issue(from_peer(x.peer), one_message(start), std::make_shared<std::int64_t>(0));
  arriving_[name_of(x)] = {value, issued_.back()};
}

std::shared_ptr<CollectiveRun> RowRun::collective(MakeCollective make, int group, const Tensor& x,
                                                  AllReduce how) const {
  const std::vector<int>& ranks = plan_.groups[group];
  auto member = std::find(ranks.begin(), ranks.end(), engine_.transport_.rank()) - ranks.begin();
  Collective steps = make(how, static_cast<int>(member), static_cast<int>(ranks.size()));
  return std::make_shared<CollectiveRun>(steps, x, ranks, group_channel(group));
}

/// Begins once begin() returns true, where it is given, and tells its bytes when it is over.
void RowRun::issue_collective(int group, std::shared_ptr<CollectiveRun> run,
                              std::function<bool()> begin) {
  auto bytes = std::make_shared<std::int64_t>(0);
  auto task = [run, begin, bytes, begun = !begin](Transport& transport) mutable {
    begun = begun || begin();
    if (!begun || !run->advance(transport)) return false;
    *bytes = run->bytes_sent();
    return true;
  };
  issue(of_group(group), task, bytes);
}

// [snippet reduce]
void RowRun::reduce(const Instruction& x) {
  auto run = collective(plan_.sharded > 0 ? reduce_scatter : all_reduce, x.peer,
                        store(x.stage).sum(x.version), engine_.settings_.reduction);
  issue_collective(x.peer, run);
  reducing_[{x.stage, x.version}] = issued_.back();
}

/// Computations wait for it where they need it: what stands between is its time to run.
void RowRun::gather(const Instruction& x) {
  Tensor whole = store(x.stage).bring_shard(x.version);
  issue_collective(x.peer, collective(all_gather, x.peer, whole, engine_.settings_.reduction));
  arriving_[name_of(x)] = {whole, issued_.back()};
}
// [end snippet]

/// arrived + own, as soon as the one is here and the other lane has no other work on the
/// stage's sums.
void RowRun::fold(const Instruction& x) {
  const int version = plan_.made_by(x.micro);
  Arriving partial = take_partial(x.stage, version);
  auto add = [own = store(x.stage).sum(version), arrived = partial.value](Transport&) {
    own.backend().accumulate(arrived, own);
    return true;
  };
  issue_after(partial.by, of_stage(x.stage), add, std::make_shared<std::int64_t>(0));
  reducing_[{x.stage, version}] = issued_.back();
}

/// Each member fills in the squares that it counts and zeros elsewhere, so that summing up is exact
/// and does not depend on how the model is cut, unless shards cut a parameter: its parts are then
/// added in rank order. Two orders of n terms that are not negative give sums within a share
/// 2 (n - 1) u of each other, so norms within n u, u = 2^-53 (Higham 2002, section 4.2).
void RowRun::norm(const Instruction& x) {
  if (plan_.groups[x.peer].size() == 1) return;  // whole_squares() needs no messages
  Gradients gradients = counted_gradients(x.version, plan_.groups[x.peer]);
  const auto count = static_cast<std::int64_t>(engine_.training_.whole.size());
  CategoryScope category(*engine_.device_, Category::communication);
  Tensor squares = empty({count}, DType::f64, engine_.device_);
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
