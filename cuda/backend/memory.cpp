// Allocates blocks of 8 sizes per power of two, so that similar sizes share blocks.
// Not here: the reasons for this allocator (memory.h).
// CUDA Runtime API, memory management; CUDA C++ Programming Guide, page-locked host memory.
#include "cuda/backend/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace plangrad::cuda {

/// The pool of the device, which keeps what is freed.
static cudaMemPool_t keeping_pool(int device) {
  cudaMemPool_t pool;
  std::uint64_t all = ~std::uint64_t{0};
  PG_CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
  PG_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  return pool;
}

CachingAllocator::CachingAllocator(int device, cudaStream_t stream, bool keeps_blocks)
    : device_(device), stream_(stream), keeps_blocks_(keeps_blocks), pool_(keeping_pool(device)) {}

void CachingAllocator::open_to_peers() {
  int count = 0, reachable = 0;
  PG_CUDA(cudaGetDeviceCount(&count));
  for (int peer = 0; peer < count; ++peer) {
    if (peer == device_) continue;
    PG_CUDA(cudaDeviceCanAccessPeer(&reachable, peer, device_));
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    if (reachable) PG_CUDA(cudaMemPoolSetAccess(pool_, &access, 1));
  }
}

std::int64_t CachingAllocator::block_bytes(std::int64_t bytes) const {
  if (!keeps_blocks_) return std::max<std::int64_t>(bytes, 1);
  std::int64_t step = 256;
  while (step * 16 < bytes) step *= 2;
  return std::max<std::int64_t>((bytes + step - 1) / step * step, step);
}

void* CachingAllocator::take(Blocks& blocks, std::int64_t size) {
  auto found = blocks.find(size);
  if (found == blocks.end() || found->second.empty()) return nullptr;
  bytes_kept_ -= size;
  return found->second.extract(found->second.begin()).value();
}

void* CachingAllocator::allocate(std::int64_t bytes) {
  const std::int64_t size = block_bytes(bytes);
  std::unique_lock lock(mutex_);
  void* block = nullptr;
  if (keeps_blocks_ && holds_back_ == std::this_thread::get_id()) block = take(freed_late_, size);
  if (!block) block = take(kept_, size);
  if (!block) {
    PG_CUDA(cudaSetDevice(device_));
    cudaError_t error = cudaMallocAsync(&block, size, stream_);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which CUDA would return again
      const Blocks blocks = take_all();
      lock.unlock();
      give_back(blocks);
      lock.lock();
      error = cudaMallocAsync(&block, size, stream_);
    }
    if (error == cudaErrorMemoryAllocation) cudaGetLastError();
    PG_CHECK(error != cudaErrorMemoryAllocation, "cudaMallocAsync: out of memory: CUDA device ",
             device_, " has no ", bytes, " bytes left beside the ", in_use_,
             " in use; use a smaller model, batch or context, or more devices");
    check(error, "cudaMallocAsync");
  }
  in_use_ += size;
  return block;
}

void CachingAllocator::free(void* data, std::int64_t bytes) noexcept {
  const std::int64_t size = block_bytes(bytes);
  std::lock_guard lock(mutex_);
  in_use_ -= size;
  bytes_kept_ += size;
  if (holds_back_ == std::thread::id())
    put_back(data, size);
  else
    freed_late_[size].insert(data);
}

void CachingAllocator::put_back(void* block, std::int64_t size) {
  if (keeps_blocks_) {
    kept_[size].insert(block);
  } else {
    cudaFreeAsync(block, stream_);
    bytes_kept_ -= size;
  }
}

void CachingAllocator::hold_back() {
  std::lock_guard lock(mutex_);
  holds_back_ = std::this_thread::get_id();
}

void CachingAllocator::catch_up() noexcept {
  std::lock_guard lock(mutex_);
  holds_back_ = {};
  for (const auto& [size, blocks] : freed_late_)
    for (void* block : blocks) put_back(block, size);
  freed_late_.clear();
}

CachingAllocator::Blocks CachingAllocator::take_all() {
  for (const auto& [size, blocks] : kept_)
    bytes_kept_ -= size * static_cast<std::int64_t>(blocks.size());
  return std::exchange(kept_, {});
}

/// Frees blocks for any use of the device, and waits until that is done: only at the end, or when
/// memory is short. Other threads may allocate meanwhile.
void CachingAllocator::give_back(const Blocks& all) const {
  for (const auto& [size, blocks] : all)
    for (void* block : blocks) cudaFreeAsync(block, stream_);
  cudaStreamSynchronize(stream_);
  cudaMemPoolTrimTo(pool_, 0);
}

void Staging::reserve() {
  for (std::optional<Slot>& slot : slots_)
    if (!slot) slot.emplace(slot_bytes_);
}

Staging::Slot& Staging::free_slot() {
  std::optional<Slot>& slot = slots_[next_++ % slots_.size()];
  if (!slot) slot.emplace(slot_bytes_);
  PG_CUDA(cudaEventSynchronize(slot->done));
  return *slot;
}

void Staging::to_device(void* target, const void* source, std::int64_t bytes, cudaStream_t stream) {
  for (std::int64_t at = 0; at < bytes; at += slot_bytes_) {
    Slot& slot = free_slot();
    const std::int64_t part = std::min(slot_bytes_, bytes - at);
    std::memcpy(slot.memory, static_cast<const std::byte*>(source) + at, part);
    PG_CUDA(cudaMemcpyAsync(static_cast<std::byte*>(target) + at, slot.memory, part,
                            cudaMemcpyHostToDevice, stream));
    slot.done.record(stream);
  }
}

void Staging::to_host(void* target, const void* source, std::int64_t bytes, cudaStream_t stream) {
  Slot* before = nullptr;  // holds the part that ends at `at`
  for (std::int64_t at = 0; at < bytes || before; at += slot_bytes_) {
    Slot* slot = nullptr;
    if (at < bytes) {
      slot = &free_slot();
      PG_CUDA(cudaMemcpyAsync(slot->memory, static_cast<const std::byte*>(source) + at,
                              std::min(slot_bytes_, bytes - at), cudaMemcpyDeviceToHost, stream));
      slot->done.record(stream);
    }
    if (before) {
      const std::int64_t start = at - slot_bytes_;
      PG_CUDA(cudaEventSynchronize(before->done));
      std::memcpy(static_cast<std::byte*>(target) + start, before->memory,
                  std::min(slot_bytes_, bytes - start));
    }
    before = slot;
  }
}

}  // namespace plangrad::cuda
