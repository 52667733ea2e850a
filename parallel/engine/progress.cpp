// A message of unknown length is two: the length, then the bytes. How many messages there are
// follows from the grants, so none is left over when the row ends. Chapter 07.
#include "parallel/engine/progress.h"

#include "parallel/transports/pack.h"

namespace plangrad::parallel {
namespace {

/// Moves what belongs to keys below `end` to a map of its own.
template <class Map>
Map take_below(Map& from, int end) {
  Map taken;
  while (!from.empty() && from.begin()->first < end) taken.insert(from.extract(from.begin()));
  return taken;
}

/// Sends or receives the length of a message, and then its bytes.
MessageLane::Task two_messages(int peer, bool sends, std::shared_ptr<std::string> bytes) {
  struct State {
    std::shared_ptr<std::string> bytes;
    std::int64_t length;
    int moved = 0;
    std::unique_ptr<Request> request = nullptr;  // destroyed before the memory
  };
  const auto size = static_cast<std::int64_t>(bytes->size());
  return [peer, sends, state = std::make_shared<State>(bytes, size)](Transport& transport) {
    for (; state->moved < 2; ++state->moved) {
      if (!state->request) {
        Message message{peer, control_channel, &state->length, sizeof state->length};
        if (state->moved == 1) {
          state->bytes->resize(static_cast<std::size_t>(state->length));
          message = {peer, control_channel, state->bytes->data(), state->length};
        }
        state->request = sends ? transport.send(message) : transport.receive(message);
      }
      if (!state->request->done()) return false;
      state->request.reset();
    }
    return true;
  };
}

}  // namespace

void Progress::begin() {
  if (course_.report_every == 0) return;
  // A rank is ahead of rank 0 by fewer bodies than there are stages.
  ahead_ = course_.report_every + run_.plan.stages + 2;
  grant_ = grant_from(0);
  if (leads())
    expect_reports();
  else if (!grant_.is_last)
    next_grant_ = receive({Queue::Kind::grant, 0}, 0);
}

Progress::Grant Progress::grant_from(int bodies) const {
  const int most = std::min(course_.bodies, bodies + ahead_);
  return {most, most == course_.bodies};
}

void Progress::pass_bar(int bodies) {
  if (course_.report_every == 0) return;
  while (bodies == grant_.bodies && !grant_.is_last) read_grant();  // never on rank 0
  if (bodies == 0 || bodies % course_.report_every != 0 || bodies >= run_.bodies) return;
  if (!leads()) {
    RunResult taken = taken_result();
    taken.interrupted = course_.interrupted();
    return send({Queue::Kind::report, 0}, 0, pack(taken));
  }
  own_.push_back(taken_result());
  hear();
  if (!grant_.is_last) grant_more(bodies);
}

void Progress::finish() {
  while (!own_.empty()) {
    for (const auto& [rank, reports] : reports_)
      waiting_.wait_for_word(*reports.front().ticket, "a report on finished updates", rank);
    hear();
  }
  for (const auto& [peer, ticket] : sent_)
    waiting_.wait_for_word(*ticket, leads() ? "a grant to be taken" : "a report to be taken", peer);
}

/// Moves the results of the updates that all stages here have made out of the run's result.
RunResult Progress::taken_result() {
  RunResult& result = run_.result;
  RunResult taken;
  const int made = std::min(run_.engine.made_everywhere(), run_.last_step());
  taken.last_step = made;
  taken.losses = take_below(result.losses, made * run_.plan.per_step);
  taken.squares = take_below(result.squares, made + 1);
  taken.norms = take_below(result.norms, made + 1);
  taken.stepped = take_below(result.stepped, made + 1);
  taken.bytes_sent = std::exchange(result.bytes_sent, {});
  taken.compute = std::exchange(result.compute, 0);
  taken.update = std::exchange(result.update, 0);
  taken.peak = run_.engine.device()->meter().peak();
  return taken;
}

/// Posts receives for the reports that are sure to come: those before the last granted body ends.
void Progress::expect_reports() {
  for (; (expected_ + 1) * course_.report_every < grant_.bodies; ++expected_)
    for (int rank = 1; rank < run_.plan.ranks(); ++rank)
      reports_[rank].push_back(receive({Queue::Kind::report, rank}, rank));
}

/// Passes on the reports that all ranks have made.
void Progress::hear() {
  while (!own_.empty()) {
    auto is_here = [&](const auto& entry) { return lane_.is_done(*entry.second.front().ticket); };
    if (!std::ranges::all_of(reports_, is_here)) return;
    std::vector<RunResult> results{std::move(own_.front())};
    own_.pop_front();
    for (auto& [rank, reports] : reports_) {
      results.push_back(unpack<RunResult>(std::move(*reports.front().bytes)));
      reports.pop_front();
    }
    goes_on_ = course_.heard(results) && goes_on_;
  }
}

/// Grants more bodies to all ranks or, once the run is to end, those that are granted already.
void Progress::grant_more(int bodies) {
  if (goes_on_)
    grant_ = grant_from(bodies);
  else
    grant_.is_last = true;
  run_.bodies = grant_.is_last ? grant_.bodies : run_.bodies;
  for (int rank = 1; rank < run_.plan.ranks(); ++rank)
    send({Queue::Kind::grant, rank}, rank, pack(grant_));
  expect_reports();
}

void Progress::read_grant() {
  waiting_.wait_for_word(*next_grant_.ticket, "word how far to go", 0);
  grant_ = unpack<Grant>(std::move(*next_grant_.bytes));
  if (grant_.is_last)
    run_.bodies = grant_.bodies;
  else
    next_grant_ = receive({Queue::Kind::grant, 0}, 0);
}

void Progress::send(Queue queue, int peer, std::string bytes) {
  const auto kept = std::make_shared<std::string>(std::move(bytes));
  std::erase_if(sent_, [&](const auto& entry) { return lane_.is_done(*entry.second); });
  sent_.emplace_back(peer, lane_.post(queue, two_messages(peer, true, kept)));
}

Progress::Word Progress::receive(Queue queue, int peer) {
  auto bytes = std::make_shared<std::string>();
  return {lane_.post(queue, two_messages(peer, false, bytes)), bytes};
}

}  // namespace plangrad::parallel
