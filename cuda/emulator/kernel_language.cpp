// The barriers and warp operations of kernel_language.h, handed to the block that runs.
// Not here: waiting and waking (block.cpp).
// CUDA C++ Programming Guide, C++ language extensions.
#include "cuda/emulator/kernel_language.h"

#include <cstdlib>

#include "autograd/error.h"
#include "cuda/emulator/block.h"
#include "cuda/emulator/device_emulated.h"
#include "cuda/emulator/report.h"

namespace plangrad::cuda::emulator {

namespace {

Block& block_for(const char* name) {
  Block* block = Block::current();
  if (!block) {
    report(autograd::text(name, " is called outside a kernel"));
    std::abort();
  }
  return *block;
}

}  // namespace

void block_barrier(const char* name, std::source_location where) {
  block_for(name).barrier({name, where});
}

void check_alignment(const char* name, std::source_location where, const void* address,
                     std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) return;
  report(autograd::text("calls ", name, " (", where.file_name(), ':', where.line(), ") of ", bytes,
                        " bytes at ", address, ", which is no multiple of that"));
  block_for(name).abandon();
}

void warp_operation(const char* name, std::source_location where, unsigned mask, void* record,
                    void (*carry_out)(void* const* records), int instructions) {
  Block& block = block_for(name);
  if (mask != ~0u) {
    report(autograd::text("calls ", name, " (", where.file_name(), ':', where.line(),
                          ") with the mask ", std::hex, mask, "; only the full one is emulated"));
    block.abandon();
  }
  block.warp_operation({name, where, instructions}, record, carry_out);
}

void synchronize_warp(void* const*) { block_for("__syncwarp").count_sync(); }

unsigned ballot(const char* name, std::source_location where, unsigned mask, bool predicate) {
  unsigned result = predicate;
  warp_operation(name, where, mask, &result, [](void* const* records) {
    auto lane = [&](int i) -> unsigned& { return *static_cast<unsigned*>(records[i]); };
    unsigned bits = 0;
    for (int i = 0; i < warpSize; ++i) bits |= lane(i) << i;
    for (int i = 0; i < warpSize; ++i) lane(i) = bits;
  });
  return result;
}

}  // namespace plangrad::cuda::emulator
