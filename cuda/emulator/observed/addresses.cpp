// Asks the system for addresses, and the program for its variables.
// Not here: records (addresses.h).
// System V ABI, thread-local storage.
#include "cuda/emulator/observed/addresses.h"

#include <link.h>
#include <sys/mman.h>

#include "autograd/error.h"

namespace plangrad::cuda::emulator {

/// Not for core dumps, which would try to hold it.
std::byte* reserve(std::size_t bytes, bool usable) {
  void* start = mmap(nullptr, bytes, usable ? PROT_READ | PROT_WRITE : PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PG_CHECK(start != MAP_FAILED, "emulator: no room for ", bytes >> 40,
           " TiB of addresses, which checked and counting builds need; lift the limit (ulimit -v)");
  madvise(start, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(start);
}

void give_back(void* start, std::size_t bytes) { madvise(start, bytes, MADV_DONTNEED); }

Range static_shared() {
  Range result;
  auto first = [](dl_phdr_info* program, std::size_t, void* result) {
    for (int i = 0; i < program->dlpi_phnum; ++i)
      if (program->dlpi_phdr[i].p_type == PT_TLS)
        *static_cast<Range*>(result) = {reinterpret_cast<std::uintptr_t>(program->dlpi_tls_data),
                                        program->dlpi_phdr[i].p_memsz};
    return 1;  // the program itself comes first, and is enough
  };
  dl_iterate_phdr(first, &result);
  const std::size_t before = result.start % 4;
  return {result.start - before, result.bytes + before};
}

}  // namespace plangrad::cuda::emulator
