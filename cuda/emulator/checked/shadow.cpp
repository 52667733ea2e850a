// Finds the cells of an address in shared memory.
// Not here: what they mean (check.cpp), and the cells of devices' memory (observed/addresses.h).
// Chapter 12.
#include "cuda/emulator/checked/shadow.h"

#include "autograd/error.h"

namespace plangrad::cuda::emulator {

SharedShadow::SharedShadow() : static_cells_(static_.bytes / word_bytes + 2) {}

void SharedShadow::begin_grid(const void* dynamic, std::size_t bytes) {
  dynamic_ = {reinterpret_cast<std::uintptr_t>(dynamic), bytes};
  if (dynamic_cells_.size() * word_bytes < bytes) dynamic_cells_.resize(bytes / word_bytes + 1);
}

void SharedShadow::begin_block(std::uint32_t who) {
  visit_language_variables([&](Range variable) {
    for (auto a = variable.start; a < variable.start + variable.bytes; a += word_bytes)
      *at(a) = {.owner = who, .written = 15};
  });
}

Cell* SharedShadow::at(std::uintptr_t address) {
  if (static_.contains(address)) return &static_cells_[(address - static_.start) / word_bytes];
  if (dynamic_.contains(address)) return &dynamic_cells_[(address - dynamic_.start) / word_bytes];
  return nullptr;
}

std::string SharedShadow::describe(std::uintptr_t address) const {
  if (dynamic_.contains(address))
    return autograd::text("byte ", address - dynamic_.start, " of dynamic shared memory");
  return "static shared memory";
}

}  // namespace plangrad::cuda::emulator
