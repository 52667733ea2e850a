// Sorts accesses by memory and warp, and counts what warps do besides.
// Not here: what a request adds to the counters (requests.cpp), and sums (counters.cpp).
// Chapter 12.
#include "cuda/emulator/counted/counter.h"

#include <algorithm>
#include <cstring>

#include "cuda/emulator/emulator.h"

namespace plangrad::cuda::emulator {

namespace {

AccessKind access_of(Use use, bool shared) {
  if (shared) return use.writes ? AccessKind::shared_store : AccessKind::shared_load;
  if (use.atomic) return AccessKind::atomic;
  return use.writes ? AccessKind::store : AccessKind::load;
}

bool starts_with(const char* name, const char* start) {
  return std::strncmp(name, start, std::strlen(start)) == 0;
}

}  // namespace

Counter& Counter::instance() {
  static Counter& counter = *new Counter;  // programs free memory until their end
  return counter;
}

Observer& observer_of_build() { return Counter::instance(); }

// ---- operations ------------------------------------------------------------------------------

void Counter::begin(const Running& operation) {
  turn_.lock();
  ++operation_;
  counts_ = &launches_.emplace_back(KernelCounters{.name = operation.name}).counts;
  counts_->launches = 1;
}

/// An operation that has used nothing, as an event, is none.
void Counter::end() {
  take_all();
  if (counts_->threads == 0 && counts_->loads.bytes + counts_->stores.bytes == 0)
    launches_.pop_back();
  turn_.unlock();
}

void Counter::begin_grid(const Launch& launch) {
  KernelCounters& own = launches_.back();
  own.name = name_of(launch.function);
  own.grid = launch.grid;
  own.block = launch.block;
  own.dynamic_bytes = launch.shared_bytes;
  counts_->blocks = Count{launch.grid.x} * launch.grid.y * launch.grid.z;
  counts_->threads = counts_->blocks * launch.block.x * launch.block.y * launch.block.z;
  dynamic_ = {reinterpret_cast<std::uintptr_t>(dynamic_shared_memory), launch.shared_bytes};
  used_words_.assign(static_shared().bytes / 4 + 1, false);
  for (WarpRequests& warp : warps_) warp.clear();
}

void Counter::begin_block(std::uint64_t) { take_all(); }

const std::string& Counter::name_of(const void* kernel) {
  std::string& name = names_[kernel];
  if (name.empty()) name = name_of_function(kernel);
  return name;
}

// ---- accesses --------------------------------------------------------------------------------

void Counter::use(const void* start, std::size_t bytes, Use use, const void* code, bool) {
  Block* block = Block::current();
  if (!block || Unwatched::depth > 0) return;
  if (use.arrives || (use.atomic && !use.writes)) return;  // counted as it began; as it succeeds
  for (std::size_t done = 0; done < bytes; done += 16)
    add(*block, reinterpret_cast<std::uintptr_t>(start) + done,
        std::min<std::size_t>(16, bytes - done), use, code);
}

void Counter::add(Block& block, std::uintptr_t address, std::size_t bytes, Use use,
                  const void* code) {
  const bool global = device_.contains(address);
  if (!global && !dynamic_.contains(address) && !is_static_shared(address)) return;
  const int thread = block.moment().thread;
  warps_[thread / Block::warp_size].add(thread % Block::warp_size, access_of(use, !global), address,
                                        bytes, code);
}

/// Notes which words are used: their number is the best that is known of the size.
bool Counter::is_static_shared(std::uintptr_t address) {
  static thread_local const Range range = static_shared();
  if (!range.contains(address)) return false;
  bool is_language = false;
  visit_language_variables([&](Range variable) { is_language |= variable.contains(address); });
  if (is_language) return false;
  const std::size_t word = (address - range.start) / 4;
  counts_->static_bytes += used_words_[word] ? 0 : 4;
  used_words_[word] = true;
  return true;
}

void Counter::note(const void* start, std::size_t bytes, Use use, const void* code) {
  if (Block::current()) return this->use(start, bytes, use, code, false);
  if (use.reads) count_range(start, bytes, AccessKind::load);
  if (use.writes) count_range(start, bytes, AccessKind::store);
}

void Counter::note_copy(void* to, const void* from, std::size_t bytes) {
  count_range(from, bytes, AccessKind::load);
  count_range(to, bytes, AccessKind::store);
}

// ---- meetings --------------------------------------------------------------------------------

void Counter::block_met() {
  ++counts_->barriers;
  take_all();
}

void Counter::warp_met(const char* operation, int instructions) {
  take(Block::current()->moment().thread / Block::warp_size);
  if (starts_with(operation, "__shfl") || starts_with(operation, "warp_"))
    counts_->shuffles += instructions;
  else if (starts_with(operation, "__syncwarp"))
    counts_->warp_barriers += instructions;
  else if (starts_with(operation, "ldmatrix"))
    counts_->matrix_loads += instructions;
  else if (starts_with(operation, "mma"))
    counts_->mmas += instructions, counts_->flops += 2 * 16 * 8 * 16 * instructions;
  else if (starts_with(operation, "wgmma"))  // a warp's share of it is 8 mma
    counts_->mmas += 8 * instructions, counts_->flops += 2 * 16 * 64 * 16 * instructions;
  else
    counts_->votes += instructions;
}

// ---- results ---------------------------------------------------------------------------------

std::vector<KernelCounters> Counter::launches() {
  std::lock_guard lock(turn_);
  return launches_;
}

void Counter::reset() {
  std::lock_guard lock(turn_);
  launches_.clear();
}

}  // namespace plangrad::cuda::emulator
