// Receives are posted in the order of the list, a window ahead, and what arrives is taken in that
// order too: this alone fixes the order of the sums. Sends go out in the order of the list.
// It cannot hang, even if a send waits for its receive: all lists of a collective agree with one
// order of all its messages, and the first of them that is not through always can be. Chapter 04.
#include "parallel/collective_run.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "autograd/backend.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {

using enum Exchange::Action;

CollectiveRun::CollectiveRun(const Collective& collective, Tensor data, std::vector<int> ranks,
                             int channel, std::int64_t piece_bytes)
    : data_(data.detach()), ranks_(std::move(ranks)), channel_(channel) {
  std::int64_t elements = piece_bytes / size_of(data_.dtype());
  PG_CHECK(elements > 0, "pieces of ", piece_bytes, " bytes of ", data_, "; use larger ones");
  cut(collective, elements);
  set_order();
}

/// The list on pieces: within a round, the first piece of every chunk, then the second of each...
void CollectiveRun::cut(const Collective& collective, std::int64_t elements) {
  for (const Round& round : collective.rounds) {
    bool more = true;
    for (std::int64_t i = 0; std::exchange(more, false); ++i) {
      for (const Exchange& exchange : round) {
        Range range = chunk_range(data_.numel(), exchange.chunk, collective.chunks);
        range.begin += i * elements;
        if (range.begin >= range.end) continue;
        range.end = std::min(range.end, range.begin + elements);
        pieces_.push_back({exchange.action, ranks_.at(exchange.peer), range, {}});
        more = true;
      }
    }
  }
}

/// What each piece waits for: a send for the last sum or copy of its values, a receive for the
/// sends of the values that it changes. Sums need no more, since arrivals are taken in order.
void CollectiveRun::set_order() {
  struct Uses {
    std::vector<int> changes, sends;
  };
  std::map<std::int64_t, Uses> uses;  // by the first element
  std::set<int> to, from;
  for (int i = 0; i < static_cast<int>(pieces_.size()); ++i) {
    Piece& piece = pieces_[i];
    Uses& before = uses[piece.range.begin];
    bool sent = piece.action == send;
    if (!sent) piece.after = before.sends;
    if ((sent || piece.action == copy) && !before.changes.empty())
      piece.after.push_back(before.changes.back());
    (sent ? before.sends : before.changes).push_back(i);
    (sent ? sends_ : receives_).push_back(i);
    (sent ? to : from).insert(piece.rank);
  }
  most_sends_ = window * to.size();
  most_receives_ = window * from.size();
}

bool CollectiveRun::advance(Transport& transport) {
  bool moved = true;
  while (moved) {
    moved = post_receives(transport);
    moved |= take_arrived();
    moved |= post_sends(transport);
    moved |= std::erase_if(sending_, [&](Underway& sent) { return end_send(sent); }) > 0;
  }
  return sending_.empty() && receiving_.empty() && next_send_ == sends_.size() &&
         next_receive_ == receives_.size();
}

bool CollectiveRun::may_begin(const Piece& piece) const {
  return std::all_of(piece.after.begin(), piece.after.end(),
                     [&](int i) { return pieces_[i].over; });
}

bool CollectiveRun::post_receives(Transport& transport) {
  bool moved = false;
  for (; next_receive_ < receives_.size() && receiving_.size() < most_receives_; ++next_receive_) {
    const Piece& piece = pieces_[receives_[next_receive_]];
    if (!may_begin(piece)) break;
    Tensor target = piece.action == copy ? values(piece.range) : scratch(piece.range.size());
    auto request = transport.receive({piece.rank, channel_, target.raw(), target.bytes()});
    receiving_.push_back({receives_[next_receive_], target, std::move(request)});
    moved = true;
  }
  return moved;
}

bool CollectiveRun::take_arrived() {
  bool moved = false;
  for (; !receiving_.empty() && receiving_.front().request->done(); receiving_.pop_front()) {
    take(receiving_.front());
    moved = true;
  }
  return moved;
}

void CollectiveRun::take(const Underway& arrived) {
  Piece& piece = pieces_[arrived.piece];
  Backend& backend = data_.backend();
  if (piece.action != copy && carried_.defined()) {
    backend.accumulate(carried_, arrived.target);
    free_.push_back(carried_.storage());
    carried_ = {};
  }
  if (piece.action == carry) carried_ = arrived.target;
  if (piece.action == add) {
    backend.accumulate(arrived.target, values(piece.range));
    free_.push_back(arrived.target.storage());
  }
  piece.over = true;
}

bool CollectiveRun::post_sends(Transport& transport) {
  bool moved = false;
  for (; next_send_ < sends_.size() && sending_.size() < most_sends_; ++next_send_) {
    const Piece& piece = pieces_[sends_[next_send_]];
    if (!may_begin(piece)) break;
    Tensor source = values(piece.range);
    auto request = transport.send({piece.rank, channel_, source.raw(), source.bytes()});
    sending_.push_back({sends_[next_send_], source, std::move(request)});
    bytes_sent_ += source.bytes();
    moved = true;
  }
  return moved;
}

bool CollectiveRun::end_send(Underway& sent) {
  if (!sent.request->done()) return false;
  pieces_[sent.piece].over = true;
  return true;
}

Tensor CollectiveRun::values(Range range) const {
  return data_.window(range.begin, {range.size()});
}

/// Not by empty(): the device's category belongs to the thread that computes.
Tensor CollectiveRun::scratch(std::int64_t elements) {
  std::int64_t bytes = elements * size_of(data_.dtype());
  auto fits = std::find_if(free_.begin(), free_.end(),
                           [&](const auto& storage) { return storage->bytes() >= bytes; });
  std::shared_ptr<Storage> storage;
  if (fits != free_.end()) {
    storage = *fits;
    free_.erase(fits);
  } else {
    storage = std::make_shared<Storage>(data_.device(), bytes, Category::communication);
  }
  return {storage, 0, {elements}, data_.dtype()};
}

int CollectiveRun::waits_for() const {
  if (!receiving_.empty()) return pieces_[receiving_.front().piece].rank;
  return sending_.empty() ? -1 : pieces_[sending_.front().piece].rank;
}

void finish(CollectiveRun& run, Transport& transport, double timeout) {
  Deadline deadline(timeout);
  while (!run.advance(transport))
    wait_for_news(transport, deadline,
                  text("a piece of a collective from or to rank ", run.waits_for()),
                  run.waits_for());
}

}  // namespace paragrad::parallel
