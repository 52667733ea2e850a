// Receives are posted in the order of the list, a window ahead, and arrivals are taken in that
// order too: this alone fixes the order of the sums. Sends go out in the order of the list. A run
// cannot hang, even if a send waits for its receive: all lists of a collective agree with one order
// of its messages, and the first message that is not complete can always proceed. Chapter 04.
#include "parallel/collectives/collective_run.h"

#include <numeric>

#include "autograd/backend.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {

using enum Exchange::Action;

CollectiveRun::CollectiveRun(const Collective& collective, Tensor data, std::vector<int> ranks,
                             int channel, std::int64_t piece_bytes, Encoding encoding)
    : data_(data.detach()), ranks_(std::move(ranks)), channel_(channel), encoding_(encoding) {
  std::int64_t elements = piece_bytes / size_of(data_.dtype());
  PG_CHECK(elements > 0, "pieces of ", piece_bytes, " bytes hold no ", data_, "; use more");
  const std::vector<Piece> pieces = cut(collective, data_.numel(), elements);
  parts_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    Part& part = parts_.emplace_back(piece);
    part.peer = ranks_.at(piece.peer);
    part.final = collective.same;
  }
  set_order();
}

/// Sets what each piece waits for: a send for the last sum or copy of its values, a receive for the
/// sends of the values that it changes. Sums need no more, since arrivals are taken in order.
void CollectiveRun::set_order() {
  std::vector<int> order(parts_.size()), sends;  // pieces of the same values, as in the list
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [this](int i) { return std::pair(parts_[i].range.begin, i); });
  int changed_by = -1;  // the last part so far that changes these values
  std::int64_t begin = -1;
  for (int i : order) {
    Part& part = parts_[i];
    if (std::exchange(begin, part.range.begin) != part.range.begin) {
      sends.clear();
      changed_by = -1;
    }
    part.changed_by = changed_by;
    if (part.action == send) {
      sends.push_back(i);
    } else {
      hold_back(i, sends);
      changed_by = i;
    }
  }
  std::vector<int> from;
  for (int i = 0; i < static_cast<int>(parts_.size()); ++i) {
    const bool sent = parts_[i].action == send;
    (sent ? sends_ : receives_).parts.push_back(i);
    if (!sent && std::ranges::find(from, parts_[i].peer) == from.end())
      from.push_back(parts_[i].peer);
  }
  receives_.most = pieces_in_flight * from.size();
}

/// Lets a receive wait for the earlier sends of its values that no other receive waits for.
void CollectiveRun::hold_back(int receive, const std::vector<int>& sends) {
  for (int i : sends) {
    if (parts_[receive].action == copy) parts_[i].final = false;
    if (parts_[i].waited_for_by >= 0) continue;
    parts_[i].waited_for_by = receive;
    ++parts_[receive].sends_before;
  }
}

bool CollectiveRun::advance(Transport& transport) {
  bool moved = true;
  while (moved) {
    moved = post(receives_, transport);
    moved |= take_arrived();
    moved |= post(sends_, transport);
    moved |= std::erase_if(sends_.underway, [&](Underway& sent) { return end_send(sent); }) > 0;
  }
  return sends_.is_over() && receives_.is_over();
}

bool CollectiveRun::may_begin(const Part& part) const {
  return part.sends_before == 0 && (part.changed_by < 0 || parts_[part.changed_by].over);
}

bool CollectiveRun::post(Way& way, Transport& transport) {
  bool moved = false;
  for (; way.next < way.parts.size() && way.underway.size() < way.most; ++way.next) {
    const int i = way.parts[way.next];
    const Part& part = parts_[i];
    if (!part.is_sum() && !may_begin(part)) break;
    Tensor x = part.action == send ? message_of(part) : target_of(part);
    const Message message{part.peer, channel_, x.raw(), x.bytes()};
    if (part.action == send) bytes_sent_ += x.bytes();
    way.underway.push_back(
        {i, x, part.action == send ? transport.send(message) : transport.receive(message)});
    moved = true;
  }
  return moved;
}

/// Values may arrive while the values to which they will be added are still being sent.
bool CollectiveRun::take_arrived() {
  bool moved = false;
  auto& arriving = receives_.underway;
  while (!arriving.empty() && arriving.front().request->done() &&
         may_begin(parts_[arriving.front().part])) {
    take(arriving.front());
    arriving.erase(arriving.begin());
    moved = true;
  }
  return moved;
}

void CollectiveRun::take(const Underway& taken) {
  Part& part = parts_[taken.part];
  part.over = true;
  Tensor arrived = taken.target;
  if (encoding_.codec && part.action == copy) {
    decode(arrived, part.range, values(part.range));
    encoded_[part.range.begin] = arrived;
  } else if (encoding_.codec) {
    arrived = scratch(part.range.size(), data_.dtype());
    decode(taken.target, part.range, arrived);
    put_back(taken.target);
  }
  if (part.action == copy) return;
  if (carried_.defined()) {
    data_.backend().accumulate(carried_, arrived);
    put_back(carried_);
    carried_ = {};
  }
  if (part.action == carry) carried_ = arrived;
  if (part.action == add) {
    data_.backend().accumulate(arrived, values(part.range));
    put_back(arrived);
  }
}

bool CollectiveRun::end_send(Underway& sent) {
  if (!sent.request->done()) return false;
  Part& part = parts_[sent.part];
  part.over = true;
  if (part.waited_for_by >= 0) --parts_[part.waited_for_by].sends_before;
  if (encoding_.codec && !part.final) put_back(sent.target);
  return true;
}

/// Calls visit(range, place in the message) for what is encoded by itself. Returns all bytes.
template <class Visit>
std::int64_t CollectiveRun::for_codes(Range range, Visit visit) const {
  std::int64_t at = 0;
  for (Range piece{range.begin, range.begin}; piece.end < range.end; piece.begin = piece.end) {
    piece.end = std::min(range.end, piece.begin + default_piece / size_of(data_.dtype()));
    at = (at + 7) / 8 * 8;  // codes begin at multiples of 8 bytes
    const Range code{at, at + encoding_.codec->encoded_bytes(piece)};
    visit(piece, code);
    at = code.end;
  }
  return at;
}

/// The values of a piece of a range.
static Tensor within(const Tensor& values, Range piece, Range range) {
  return values.window(piece.begin - range.begin, {piece.size()});
}

void CollectiveRun::decode(const Tensor& bytes, Range range, const Tensor& values) const {
  for_codes(range, [&](Range piece, Range code) {
    encoding_.codec->decode(bytes.window(code.begin, {code.size()}), piece,
                            within(values, piece, range));
  });
}

// [snippet message_of]
/// Encodes values that a copy replaces later for one receiver, and final values once for all.
Tensor CollectiveRun::message_of(const Part& part) {
  Tensor x = values(part.range);
  if (!encoding_.codec) return x;
  if (auto found = encoded_.find(part.range.begin); found != encoded_.end()) return found->second;
  Tensor bytes = room_for(part.range);
  for_codes(part.range, [&](Range piece, Range code) {
    encoding_.codec->encode(within(x, piece, part.range), piece, encoding_.version, part.final,
                            bytes.window(code.begin, {code.size()}));
  });
  if (part.final) encoded_[part.range.begin] = bytes;
  return bytes;
}
// [end snippet]

Tensor CollectiveRun::values(Range range) const {
  return data_.window(range.begin, {range.size()});
}

/// The memory for an arriving piece: its own place for a copy that is not encoded, else scratch.
Tensor CollectiveRun::target_of(const Part& part) {
  return part.action == copy && !encoding_.codec ? values(part.range) : room_for(part.range);
}

/// Memory for a message that brings these values.
Tensor CollectiveRun::room_for(Range range) {
  if (!encoding_.codec) return scratch(range.size(), data_.dtype());
  return scratch(for_codes(range, [](Range, Range) {}), DType::u8);
}

/// Takes the smallest free memory that fits, so that codes leave the larger ones to values.
Tensor CollectiveRun::scratch(std::int64_t elements, DType dtype) {
  std::int64_t bytes = elements * size_of(dtype);
  auto fits = free_.end();
  for (auto at = free_.begin(); at != free_.end(); ++at)
    if ((*at)->bytes() >= bytes && (fits == free_.end() || (*at)->bytes() < (*fits)->bytes()))
      fits = at;
  if (fits == free_.end()) return empty({elements}, dtype, data_.device(), Category::communication);
  const std::shared_ptr<Storage> storage = *fits;
  free_.erase(fits);
  return {storage, 0, {elements}, dtype};
}

int CollectiveRun::waits_for() const {
  for (const Way* way : {&receives_, &sends_})
    if (!way->underway.empty()) return parts_[way->underway.front().part].peer;
  return -1;
}

/// The bytes that a rank sends if the collective is a list of messages. An all-reduce is a
/// reduce-scatter and then a gather.
std::int64_t TransportRun::bytes_as_by_list(int rank) const {
  const auto members = static_cast<int>(ranks_.size());
  const auto member = static_cast<int>(std::ranges::find(ranks_, rank) - ranks_.begin());
  const std::int64_t own = chunk_range(data_.numel(), member, members).size();
  const std::int64_t others = data_.numel() - own, own_to_all = own * (members - 1);
  return size_of(data_.dtype()) * (what_ == Joint::all_reduce       ? others + own_to_all
                                   : what_ == Joint::reduce_scatter ? others
                                                                    : own_to_all);
}

bool TransportRun::advance(Transport& transport) {
  if (data_.numel() == 0) return true;
  if (!request_) request_ = transport.together(what_, ranks_, channel_, data_, after_);
  PG_CHECK(request_, "--reduction nccl: the transport ", transport.name(), " has no sums of its ",
           "own; use --transport nccl, or --reduction scatter");
  if (!request_->done()) return false;
  request_.reset();  // on the thread that uses the transport
  bytes_sent_ = bytes_as_by_list(transport.rank());
  return true;
}

void finish(GroupRun& run, Transport& transport, double timeout) {
  Deadline deadline(timeout);
  while (!run.advance(transport))
    wait_for_news(
        transport, deadline,
        [&] {
          return run.waits_for() < 0
                     ? "the other ranks of a collective"
                     : text("a piece of a collective from or to rank ", run.waits_for());
        },
        run.waits_for());
}

}  // namespace plangrad::parallel
