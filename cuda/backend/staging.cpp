// Slots are used in turn: while the device copies one, the host fills or empties another.
// Not here: what is copied.
// CUDA C++ Programming Guide, page-locked host memory.
#include "cuda/backend/staging.h"

#include <algorithm>
#include <cstring>

#include "cuda/launch/check.h"

namespace paragrad::cuda {

namespace {

constexpr std::int64_t slot_bytes = 1 << 20;

}  // namespace

Staging::~Staging() {
  for (Slot& slot : slots_) {
    if (slot.done) cudaEventDestroy(slot.done);
    if (slot.memory) cudaFreeHost(slot.memory);
  }
}

Staging::Slot& Staging::free_slot() {
  Slot& slot = slots_[next_++ % slots_.size()];
  if (!slot.memory) PG_CUDA(cudaMallocHost(&slot.memory, slot_bytes));
  if (!slot.done) PG_CUDA(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming));
  PG_CUDA(cudaEventSynchronize(slot.done));
  return slot;
}

void Staging::to_device(void* target, const void* source, std::int64_t bytes, cudaStream_t stream) {
  for (std::int64_t at = 0; at < bytes; at += slot_bytes) {
    Slot& slot = free_slot();
    const std::int64_t part = std::min(slot_bytes, bytes - at);
    std::memcpy(slot.memory, static_cast<const std::byte*>(source) + at, part);
    PG_CUDA(cudaMemcpyAsync(static_cast<std::byte*>(target) + at, slot.memory, part,
                            cudaMemcpyHostToDevice, stream));
    PG_CUDA(cudaEventRecord(slot.done, stream));
  }
}

void Staging::to_host(void* target, const void* source, std::int64_t bytes, cudaStream_t stream) {
  Slot* before = nullptr;  // the slot of the part that ends at `at`
  for (std::int64_t at = 0; at < bytes || before; at += slot_bytes) {
    Slot* slot = nullptr;
    if (at < bytes) {
      slot = &free_slot();
      PG_CUDA(cudaMemcpyAsync(slot->memory, static_cast<const std::byte*>(source) + at,
                              std::min(slot_bytes, bytes - at), cudaMemcpyDeviceToHost, stream));
      PG_CUDA(cudaEventRecord(slot->done, stream));
    }
    if (before) {
      const std::int64_t start = at - slot_bytes;
      PG_CUDA(cudaEventSynchronize(before->done));
      std::memcpy(static_cast<std::byte*>(target) + start, before->memory,
                  std::min(slot_bytes, bytes - start));
    }
    before = slot;
  }
}

}  // namespace paragrad::cuda
