// The way of 2a5>3: send() posts a task to the queue of rank 3. When its turn comes, the lane's
// thread encodes the value, if the plan's channel has a codec, and starts the transport's message.
// Chapter 04.
#include "parallel/engine/mailbox.h"

namespace plangrad::parallel {
namespace {

/// The message of a value; a turn has no value, and its message no bytes.
Message message_with(const Tensor& value, int peer, const Mark& after) {
  if (!value.defined()) return {peer, plan_channel, nullptr, 0};
  return {peer, plan_channel, value.raw(), value.bytes(), after};
}

/// A task that starts a message when its turn comes. The request is destroyed before `start`, which
/// holds the memory that another rank may be copying to; and on the lane's thread, which alone uses
/// the transport: the thread that posts the task keeps no copy of it.
template <class Start>
MessageLane::Task one_message(Start start) {
  using Both = std::pair<Start, std::unique_ptr<Request>>;
  return [both = std::make_shared<Both>(std::move(start), nullptr)](Transport& transport) {
    auto& [start, request] = *both;
    if (!request) request = start(transport);
    return request->done();
  };
}

}  // namespace

// ---- values ----

Arriving Mailbox::take(const Name& name) {
  if (auto found = here_.extract(name)) return {found.mapped()};
  auto found = arriving_.extract(name);
  PG_CHECK(found, "this rank does not have the value for ", print(run_.at(waiting_.cell())));
  return found.mapped();
}

Tensor Mailbox::take_value(const Name& name) {
  Arriving taken = take(name);
  waiting_.wait(taken.by);
  return taken.value;
}

Arriving Mailbox::take_first(const Name& begin, const Name& end) {
  auto found = arriving_.lower_bound(begin);
  PG_CHECK(found != arriving_.end() && found->first < end, "this rank has no partial sum for ",
           print(run_.at(waiting_.cell())));
  return arriving_.extract(found).mapped();
}

const Arriving* Mailbox::arriving(const Name& name) const {
  auto found = arriving_.find(name);
  return found == arriving_.end() ? nullptr : &found->second;
}

void Mailbox::wait_for(const Name& name) {
  if (auto found = arriving_.extract(name)) waiting_.wait(found.mapped().by);
}

// ---- messages ----

// [snippet send]
void Mailbox::send(const Instruction& x, const Arriving& sent) {
  const bool encodes = is_encoded(x);
  const Tensor value = encodes                ? room_for_code(x, sent.value)
                       : sent.bytes.defined() ? sent.bytes
                                              : sent.value;
  // What the lane encodes, or has work on, is final later.
  const Mark after = encodes || sent.by.ticket ? nullptr : run_.engine.transport().mark();
  auto start = [=, channel = channel_, raw = sent.value,
                message = message_with(value, x.peer, after)](Transport& transport) {
    if (encodes) channel->encode(x, raw, value);
    return transport.send(message);
  };
  bound_sends(x.peer);
  auto bytes = std::make_shared<std::int64_t>(value.defined() ? value.bytes() : 0);
  const Issued issued =
      post({Queue::Kind::to_peer, x.peer}, sent.by, one_message(start), std::move(bytes));
  leaving_[x.peer].push_back(issued);
  if (x.what == Value::weights) reading_[{x.stage, x.version}].push_back(issued);
}
// [end snippet]

/// Values that wait to be sent take memory, so a rank that is ahead waits once the channel's
/// capacity and two more are in flight. The verifier has proved that such waiting ends, in the
/// order of the row; in a message-driven plan, what is in flight is bounded anyway.
void Mailbox::bound_sends(int peer) {
  if (run_.plan.in_flight > 0) return;
  auto& leaving = leaving_[peer];
  while (leaving.size() >= run_.capacity + 2) {
    waiting_.wait(leaving.front());
    leaving.pop_front();
  }
}

void Mailbox::receive(const Instruction& x, const Tensor& value, const Tensor& bytes,
                      std::function<void()> decode, bool keep_bytes) {
  const Tensor& target = bytes.defined() ? bytes : value;
  auto start = [target, message = message_with(target, x.peer, run_.engine.transport().mark())](
                   Transport& transport) { return transport.receive(message); };
  MessageLane::Task task = one_message(start);
  if (decode)
    task = [task, decode](Transport& transport) {
      if (!task(transport)) return false;
      decode();
      return true;
    };
  const Issued issued = post({Queue::Kind::from_peer, x.peer}, {}, std::move(task),
                             std::make_shared<std::int64_t>(0));
  arriving_[value_of(x)] = {value, issued, keep_bytes ? bytes : Tensor()};
}

void Mailbox::receive_output(const Instruction& x, const Tensor& value) {
  if (!is_encoded(x)) return receive(x, value);
  const Tensor bytes = room_for_code(x, value);
  receive(x, value, bytes, [=, channel = channel_] { channel->decode(x, bytes, value); });
}

/// Evaluations, whose plans name no codec, send activations as they are.
bool Mailbox::is_encoded(const Instruction& x) const {
  const bool is_output = x.what == Value::activation || x.what == Value::activation_gradient;
  return channel_ && is_output && run_.plan.steps > 0;
}

Tensor Mailbox::room_for_code(const Instruction& x, const Tensor& value) const {
  return parallel::room_for_code(channel_->encoded_bytes(x, value.numel(), value.dtype()),
                                 value.device());
}

Issued Mailbox::meet(const Instruction& x, std::shared_ptr<GroupRun> run, const Tensor& arrives,
                     std::function<bool()> begin, const Issued& before) {
  auto bytes = std::make_shared<std::int64_t>(0);
  if (!begin && !before.ticket) run->follow(run_.engine.transport().mark());
  auto task = [run, begin, bytes, begun = !begin](Transport& transport) mutable {
    begun = begun || begin();
    if (!begun || !run->advance(transport)) return false;
    *bytes = run->bytes_sent();
    return true;
  };
  const Issued issued = post({Queue::Kind::group, x.peer}, before, std::move(task), bytes);
  if (arrives.defined()) arriving_[value_of(x)] = {arrives, issued};
  return issued;
}

void Mailbox::reduce(const Instruction& x) {
  const Arriving own = take(value_of(x));
  const AllReduce how = run_.engine.settings().reduction;
  meet(x, run_.in_group(x.peer, Joint::all_reduce, own.value, how), own.value, {}, own.by);
}

Issued Mailbox::work(Queue queue, const Issued& before, std::function<void()> work, Bytes bytes) {
  auto task = [work = std::move(work)](Transport&) {
    work();
    return true;
  };
  return post(queue, before, std::move(task), std::move(bytes));
}

/// Posts a task that waits until `before` is done, if that is a message.
Issued Mailbox::post(Queue queue, const Issued& before, MessageLane::Task task, Bytes bytes) {
  Issued issued{waiting_.cell(), {}, std::move(bytes)};
  if (before.ticket) {
    task = [task = std::move(task), ticket = before.ticket](Transport& transport) {
      return ticket->done && task(transport);
    };
    issued.before = std::make_shared<const Issued>(before);
  }
  issued.ticket = lane_.post(queue, std::move(task));
  if (issued.bytes) issued_.push_back(issued);
  return issued;
}

void Mailbox::wait_for_readers(const Made& weights) {
  auto readers = reading_.extract(weights);
  if (!readers) return;
  for (const Issued& reader : readers.mapped()) waiting_.wait(reader);
}

void Mailbox::finish() {
  for (const Issued& message : issued_) waiting_.wait(message);
  forget_finished();
}

void Mailbox::forget_finished() {
  for (; !issued_.empty() && lane_.is_done(*issued_.front().ticket); issued_.pop_front()) {
    const Issued& message = issued_.front();
    const Instruction x = run_.at(message.cell);
    const std::int64_t bytes = *message.bytes;
    RunResult& result = run_.result;
    if (bytes > 0) result.bytes_sent[message_kind(x)] += bytes;
    if (run_.records)
      result.records.push_back({run_.rank, Lane::message, x, result.seconds(message.ticket->issued),
                                result.seconds(message.ticket->finished), bytes, 0, message.cell});
  }
}

}  // namespace plangrad::parallel
