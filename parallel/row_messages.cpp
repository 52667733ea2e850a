// The message half of the interpreter: what is handed to the other lane, how long a computation waits
// for it, and what a rank says when it gives up.
// Chapter 04.
#include <algorithm>
#include <cmath>

#include "parallel/row_run.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {
namespace {

// Queues of the message lane, and channels of the transport.
int to_peer(int rank) { return 2 * rank; }
int from_peer(int rank) { return 2 * rank + 1; }
int of_group(int group) { return -1 - group; }
constexpr int peer_channel = 0;
int group_channel(int group) { return 1 + group; }

const char* kind_of(Value what) {
  switch (what) {
    case Value::activation: return "activation";
    case Value::activation_gradient: return "activation gradient";
    case Value::gradient_sum: return "gradient sum";
    case Value::norm: return "norm";
    default: return "other";
  }
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

/// Waits for all messages that are under way, and writes them down.
void RowRun::finish_messages() {
  for (const Issued& message : issued_) wait(*message.ticket, message.index);
  for (const Issued& message : issued_) {
    const Instruction& x = row_[message.index];
    std::int64_t bytes = *message.bytes;
    if (bytes > 0) result_.bytes_sent[kind_of(x.what)] += bytes;
    result_.records.push_back({engine_.transport_.rank(), Lane::message, x,
                               seconds(message.ticket->issued), seconds(message.ticket->finished),
                               bytes});
  }
}

void RowRun::send(const Instruction& x) {
  Tensor value = take(x.what, x.stage, x.micro);
  auto start = [value, peer = x.peer](Transport& transport) {
    return transport.send({peer, peer_channel, value.raw(), value.bytes()});
  };
  bound_sends(x.peer);
  issue(to_peer(x.peer), one_message(start), std::make_shared<std::int64_t>(value.bytes()));
  sending_[x.peer].push_back(issued_.back());
}

/// Values that wait to be sent take memory, so a rank that is ahead waits once the channel's capacity
/// and two more are under way. The verifier has proved that such waiting ends.
void RowRun::bound_sends(int peer) {
  auto& sending = sending_[peer];
  while (sending.size() >= capacity_ + 2) {
    wait(*sending.front().ticket, sending.front().index);
    sending.pop_front();
  }
}

void RowRun::receive(const Instruction& x) {
  Shape shape = shape_of_output(x.stage, x.micro);
  Tensor value = empty(shape, engine_.training_.dtype, engine_.device_);
  auto start = [value, peer = x.peer](Transport& transport) {
    return transport.receive({peer, peer_channel, value.raw(), value.bytes()});
  };
  issue(from_peer(x.peer), one_message(start), std::make_shared<std::int64_t>(0));
  arriving_[{x.what, x.stage, x.micro}] = {value, issued_.back().ticket, index_};
}

Shape RowRun::shape_of_output(int stage, int micro) const {
  const Training& training = engine_.training_;
  return output_shape(training.model, 0, training.cuts[stage + 1], batches_.shape(micro));
}

Tensor RowRun::take(Value what, int stage, int micro) {
  if (auto found = here_.extract({what, stage, micro})) return found.mapped();
  auto found = arriving_.extract({what, stage, micro});
  PG_CHECK(found, "this rank has no such value for ", print(row_[index_]));
  wait(*found.mapped().ticket, found.mapped().index);
  return found.mapped().value;
}

std::shared_ptr<CollectiveRun> RowRun::sum_over(int group, const Tensor& x, AllReduce how) const {
  const std::vector<int>& ranks = plan_.groups[group];
  auto member = std::find(ranks.begin(), ranks.end(), engine_.transport_.rank()) - ranks.begin();
  Collective steps = all_reduce(how, static_cast<int>(member), static_cast<int>(ranks.size()));
  return std::make_shared<CollectiveRun>(steps, x, ranks, group_channel(group));
}

/// Begins once begin() returns true, and tells its bytes when it is over.
void RowRun::issue_sum(int group, std::shared_ptr<CollectiveRun> run, std::function<bool()> begin) {
  auto bytes = std::make_shared<std::int64_t>(0);
  auto task = [run, begin, bytes, begun = false](Transport& transport) mutable {
    begun = begun || begin();
    if (!begun || !run->advance(transport)) return false;
    *bytes = run->bytes_sent();
    return true;
  };
  issue(of_group(group), task, bytes);
}

void RowRun::reduce(const Instruction& x) {
  auto run = sum_over(x.peer, store(x.stage).sum(x.version), engine_.settings_.reduction);
  issue_sum(x.peer, run, [] { return true; });
  reducing_[{x.stage, x.version}] = issued_.back();
}

/// Each member fills in the squares that it counts and zeros elsewhere, so that summing up is exact
/// and does not depend on how the model is cut.
void RowRun::norm(const Instruction& x) {
  if (plan_.groups[x.peer].size() == 1) return;  // whole_squares() needs no messages
  Gradients gradients = counted_gradients(x.version, plan_.groups[x.peer]);
  const auto count = static_cast<std::int64_t>(engine_.training_.whole.size());
  CategoryScope category(*engine_.device_, Category::communication);
  Tensor squares = empty({count}, DType::f64, engine_.device_);
  auto run = sum_over(x.peer, squares, AllReduce::scatter_reduce);
  std::vector<TicketPtr> sums;
  for (const auto& [name, reducing] : reducing_)
    if (name.second == x.version) sums.push_back(reducing.ticket);
  auto begin = [this, squares, gradients, sums] {
    for (const TicketPtr& sum : sums)
      if (!sum->done) return false;
    squares.backend().copy_from_host(squares_of(gradients).data(), squares);
    return true;
  };
  issue_sum(x.peer, run, begin);
  norming_[x.version] = {issued_.back(), squares};
}

void RowRun::wait(const Ticket& ticket, int index) {
  auto start = Clock::now();
  auto outcome = lane_.wait(ticket, engine_.settings_.timeout);
  if (outcome == MessageLane::Outcome::done) return;
  double waited = std::chrono::duration<double>(Clock::now() - start).count();
  auto failure = lane_.failure();
  give_up(index, waited, failure ? report(failure->rank, failure->what) : "");
}

// [snippet give_up]
/// rank 1: waited 60 s for 1g5>1 of rank 2; rank 2 was at 2F5v1
void RowRun::give_up(int index, double waited, const std::string& why) const {
  Instruction awaited = row_[index];
  int peer = awaited_rank(awaited), rank = engine_.transport_.rank();
  if (awaited.op == Op::send || awaited.op == Op::recv) {
    awaited.op = awaited.op == Op::send ? Op::recv : Op::send;
    awaited.peer = rank;
  }
  double rounded = std::round(waited * 10) / 10;
  throw Error(text("rank ", rank, ": waited ", rounded, " s for ", print(awaited), " of rank ",
                   peer, "; rank ", peer, " was ", place_of(peer),
                   why.empty() ? "" : "; stopped by ", why, '\n', mark(plan_, rank, index_)));
}
// [end snippet]

/// The rank that a message depends on: its peer, or the first of the group that has not come to it.
int RowRun::awaited_rank(const Instruction& x) const {
  if (x.op == Op::send || x.op == Op::recv) return x.peer;
  int other = x.peer;
  for (int rank : plan_.groups[x.peer]) {
    if (rank != engine_.transport_.rank()) other = rank;
    const Row& row = plan_.rows[rank];
    int here = static_cast<int>(std::find(row.begin(), row.end(), x) - row.begin());
    int place = engine_.transport_.position(rank) - position(engine_.plans_run_, 0);
    bool passed = place > here && place <= static_cast<int>(row.size());
    if (rank != engine_.transport_.rank() && !passed) return rank;
  }
  return other;
}

std::string RowRun::place_of(int rank) const {
  int place = engine_.transport_.position(rank), begin = position(engine_.plans_run_, 0);
  const Row& row = plan_.rows[rank];
  int index = place - begin;
  if (place < 0) return "never heard of";
  if (index < 0 || index > static_cast<int>(row.size())) return "not in this plan yet";
  return index == static_cast<int>(row.size()) ? "at the end of its row"
                                               : "at " + print(row[index]);
}

}  // namespace paragrad::parallel
