// Finds the cells of an address.
// Not here: what they mean (check.cpp).
// System V ABI, thread-local storage: a program's variables of one thread are one segment.
#include "cuda/emulator/checked/shadow.h"

#include <link.h>
#include <sys/mman.h>

#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/kernel_language.h"

namespace paragrad::cuda::emulator {

namespace {

/// Not for core dumps, which would try to hold it.
void* map(std::size_t bytes, int access) {
  void* start = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PG_CHECK(start != MAP_FAILED, "emulator: no room for ", bytes >> 40,
           " TiB of addresses, which the checked build needs; lift the limit (ulimit -v)");
  madvise(start, bytes, MADV_DONTDUMP);
  return start;
}

}  // namespace

GlobalShadow::GlobalShadow()
    : start_(reinterpret_cast<std::uintptr_t>(map(bytes, PROT_NONE))),
      cells_(static_cast<Cell*>(map(bytes / word_bytes * sizeof(Cell), PROT_READ | PROT_WRITE))) {}

std::byte* GlobalShadow::addresses() {
  return reinterpret_cast<std::byte*>(start_ + std::exchange(used_, used_ + arena_bytes));
}

void GlobalShadow::forget(std::uintptr_t start, std::size_t count) {
  madvise(at(start), count / word_bytes * sizeof(Cell), MADV_DONTNEED);
}

SharedShadow::SharedShadow() {
  auto first = [](dl_phdr_info* program, std::size_t, void* result) {
    auto& self = *static_cast<SharedShadow*>(result);
    for (int i = 0; i < program->dlpi_phnum; ++i)
      if (program->dlpi_phdr[i].p_type == PT_TLS) {
        self.static_start_ = reinterpret_cast<std::uintptr_t>(program->dlpi_tls_data);
        self.static_bytes_ = program->dlpi_phdr[i].p_memsz;
      }
    return 1;  // the program itself comes first, and is enough
  };
  dl_iterate_phdr(first, this);
  static_start_ -= static_start_ % word_bytes;
  static_cells_.resize(static_bytes_ / word_bytes + 2);
}

void SharedShadow::begin_grid(const void* dynamic, std::size_t bytes) {
  dynamic_start_ = reinterpret_cast<std::uintptr_t>(dynamic);
  dynamic_bytes_ = bytes;
  if (dynamic_cells_.size() * word_bytes < bytes) dynamic_cells_.resize(bytes / word_bytes + 1);
}

void SharedShadow::begin_block(std::uint32_t who) {
  auto provide = [&](const auto& variable) {
    auto start = reinterpret_cast<std::uintptr_t>(&variable);
    for (auto a = start; a < start + sizeof variable; a += word_bytes)
      *at(a) = {.owner = who, .written = 15};
  };
  provide(threadIdx);
  provide(blockIdx);
  provide(blockDim);
  provide(gridDim);
  provide(dynamic_shared_memory);
}

Cell* SharedShadow::at(std::uintptr_t address) {
  if (std::uintptr_t offset = address - static_start_; offset < static_bytes_)
    return &static_cells_[offset / word_bytes];
  if (std::uintptr_t offset = address - dynamic_start_; offset < dynamic_bytes_)
    return &dynamic_cells_[offset / word_bytes];
  return nullptr;
}

std::string SharedShadow::describe(std::uintptr_t address) const {
  if (address - dynamic_start_ < dynamic_bytes_)
    return autograd::text("byte ", address - dynamic_start_, " of dynamic shared memory");
  return "static shared memory";
}

}  // namespace paragrad::cuda::emulator
