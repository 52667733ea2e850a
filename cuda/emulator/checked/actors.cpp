// Numbers for everything that uses memory, the order that they tell, and the words of reports.
// Not here: where clocks come from (scheduler.cpp), and when reports are made (watch.cpp).
// Lamport 1978, happened before. addr2line is part of GNU binutils, which compilers need anyway.
#include "cuda/emulator/checked/watch.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/emulator.h"

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

namespace {

/// The place of a program's address in its file.
std::uintptr_t address_in_file(std::uint32_t code) {
  auto first = [](dl_phdr_info* program, std::size_t, void* loaded_at) {
    *static_cast<std::uintptr_t*>(loaded_at) = program->dlpi_addr;
    return 1;
  };
  std::uintptr_t loaded_at = 0;
  dl_iterate_phdr(first, &loaded_at);
  return reinterpret_cast<std::uintptr_t>(&__executable_start) + code - loaded_at;
}

const char* verb_of(Use use) {
  if (use.reads && use.writes) return "updates ";
  return use.writes ? "writes " : "reads ";
}

}  // namespace

/// addr2line prints the functions that were compiled into each other from the innermost on; we
/// take the first that is not the emulator's. `code` is where the access returns to, a byte late.
std::string line_of(std::uint32_t code) {
  if (code == 0) return "";
  std::array<char, 4096> line{};
  const ssize_t length = readlink("/proc/self/exe", line.data(), line.size() - 1);
  const std::string program(line.data(), length > 0 ? length : 0);
  const std::string command = text("addr2line -i -e '", program, "' ", std::hex, "0x",
                                   address_in_file(code) - 1, " 2>/dev/null");
  std::unique_ptr<FILE, int (*)(FILE*)> lines(popen(command.c_str(), "r"), pclose);
  while (lines && std::fgets(line.data(), line.size(), lines.get())) {
    std::string_view place = line.data();
    place = place.substr(0, place.find_first_of(" \n"));  // behind it, more about blocks of code
    if (place.starts_with('?')) return "";
    if (place.find("cuda/emulator/") == place.npos) return text(" (", place, ')');
  }
  return "";
}

std::string Watch::explain(const Fault& fault, std::uintptr_t address, Use use, const Access& now) {
  const std::string_view what = fault.what;
  if (what == "invalid") return text("invalid access to ", describe(address));
  const std::string here = text(verb_of(use), describe(address), line_of(now.code));
  if (what == "unwritten") return text(here, ", which nobody has written");

  if (fault.other.who == 0) return text(here, "; ", what);

  const Access& other = fault.other;
  const bool same_block = other.who == now.who && Block::current();
  const std::string who = actors_.describe(other), there = line_of(other.code);
  if (what == "pending")
    return text(here, ", where an asynchronous copy is to arrive that ", who, " has begun", there,
                "; cp_async_wait must come before, and a barrier if threads differ");
  std::string missing = "no event and no wait of the host orders the two";
  if (same_block && other.thread / 32 == now.thread / 32)
    missing = "__syncwarp or __syncthreads must stand between";
  else if (same_block)
    missing = "__syncthreads must stand between";
  else if (actors_.is_of_current(other))
    missing = "blocks of a launch have no order";
  return text("race: ", here, ", which ", who, other.wrote ? " wrote" : " read", there, "; ",
              missing);
}

}  // namespace plangrad::cuda::emulator
