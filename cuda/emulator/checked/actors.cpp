// Numbers for everything that uses memory, and the order that they tell.
// Not here: where clocks come from (history.cpp).
// Lamport 1978, happened before.
#include "cuda/emulator/checked/actors.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/report.h"

namespace plangrad::cuda::emulator {

using autograd::text;

namespace {

constexpr std::uint32_t most_warp_syncs = 32767;  // that an Access can count

/// The i-th place in a grid, or thread of a block.
std::string show(std::uint32_t i, dim3 size) {
  return text('(', i % size.x, ',', i / size.x % size.y, ',', i / size.x / size.y, ')');
}

}  // namespace

void Actors::add(Actor actor, Clock history) {
  PG_CHECK(next_ < std::numeric_limits<std::uint32_t>::max(),
           "emulator: the checked build can tell 4 billion blocks and operations apart, which "
           "have run; use shorter runs");
  who_ = actor.first = next_++;
  actors_.push_back(std::move(actor));
  history_ = std::move(history);
  answer_ = {};
}

void Actors::begin(const Running& o) {
  add({.name = o.name, .device = o.device, .stream = o.stream, .number = o.number}, *o.history);
}

void Actors::begin_host(Clock history) {
  const std::uint64_t time = history.at(0);
  if (actors_.empty() || actors_.back().stream != 0 || actors_.back().number != time)
    return add({.name = "the host", .number = time}, std::move(history));
  history_ = std::move(history);  // the host may have waited meanwhile
  answer_ = {};
}

void Actors::begin_grid(const Launch& launch) {
  Actor& actor = actors_.back();
  actor.kernel = launch.function;
  actor.grid = launch.grid;
  actor.block = launch.block;
  next_ = actor.first + launch.grid.x * launch.grid.y * launch.grid.z;
}

Access Actors::stamp(Use use, const void* code) const {
  Access now{.who = who_, .wrote = use.writes, .atomic = use.atomic, .pending = use.pending};
  if (code) now.code = static_cast<const char*>(code) - &__executable_start;
  if (const Block* block = Block::current()) {
    const Moment moment = block->moment();
    now.thread = moment.thread;
    now.barriers = moment.barriers;
    now.warp_syncs = std::min(moment.warp_syncs, most_warp_syncs);
  }
  return now;
}

bool Actors::before(const Access& earlier, const Access& now) const {
  // [snippet same block]
  if (earlier.who == now.who) {
    bool same_warp = earlier.thread / 32 == now.thread / 32;
    return earlier.thread == now.thread || earlier.barriers < now.barriers ||
           (same_warp &&
            (earlier.warp_syncs < now.warp_syncs || now.warp_syncs == most_warp_syncs));
  }
  // [end snippet]
  if (earlier.who == 0) return true;
  if (is_of_current(earlier)) return false;  // another block
  if (earlier.who < answer_.first || earlier.who >= answer_.end) {
    const Actor& actor = find(earlier.who);
    const std::uint32_t end = &actor == &actors_.back() ? next_ : (&actor + 1)->first;
    answer_ = {actor.first, end, history_.covers(actor.stream, actor.number)};
  }
  return answer_.before;
}

const Actor& Actors::find(std::uint32_t who) const {
  auto later = [](std::uint32_t who, const Actor& actor) { return who < actor.first; };
  return *std::prev(std::upper_bound(actors_.begin(), actors_.end(), who, later));
}

std::string Actors::describe(const Access& access) const {
  const Actor& actor = find(access.who);
  if (actor.stream == 0) return actor.name;
  const std::string stream = text(" on stream ", actor.stream, " of device ", actor.device);
  if (!actor.kernel) return actor.name + stream;
  const std::string thread = text("thread ", show(access.thread, actor.block));
  if (access.who == who_) return thread;
  const std::string block = text("block ", show(access.who - actor.first, actor.grid), ", ");
  if (is_of_current(access)) return block + thread;
  return text("kernel ", name_of_function(actor.kernel), ", ", block, thread, stream);
}

}  // namespace plangrad::cuda::emulator
