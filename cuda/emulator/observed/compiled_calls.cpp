// The functions that a compiler calls under -fsanitize=thread for each access to memory: here, not
// in ThreadSanitizer's library, whose fibers cost too much for a thread of each CUDA thread.
// Linux's kernel does the same for its own checker, KCSAN. And the addresses that observers know.
// Not here: what accesses mean to the observer, which checks or counts (checked/, counted/).
// GCC, gcc/sanitizer.def, lists the calls; System V ABI, thread-local storage.
#include <link.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "autograd/error.h"
#include "cuda/emulator/block.h"
#include "cuda/emulator/observed/addresses.h"
#include "cuda/emulator/observer.h"

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

namespace {

using namespace plangrad::cuda::emulator;

using Word8 = std::uint8_t;
using Word16 = std::uint16_t;
using Word32 = std::uint32_t;
using Word64 = std::uint64_t;

constexpr Use atomic_read{.reads = true, .atomic = true};
constexpr Use atomic_write{.writes = true, .atomic = true};
constexpr Use atomic_update{.reads = true, .writes = true, .atomic = true};

/// `all`: also of memory that is not the device's, which kernels must not touch.
void announce(const void* address, std::size_t bytes, Use use, const void* code, bool all = true) {
  if (observer) observer->use(address, bytes, use, code, all);
}

/// A function of C's that moves memory: a kernel's is an access, the host's may move what nobody
/// has written.
void moved(void* to, const void* from, std::size_t bytes, const void* code) {
  if (bytes == 0) return;
  if (from) announce(from, bytes, Block::current() ? reading : moving, code, false);
  announce(to, bytes, writing, code, false);
}

}  // namespace

#define HERE __builtin_return_address(0)

extern "C" {

/// At the program's start, in each file that was compiled so.
void __tsan_init() { observer = &observer_of_build(); }

#define PLANGRAD_ACCESS(name, bytes)                                                 \
  void __tsan_read##name(void* address) { announce(address, bytes, reading, HERE); } \
  void __tsan_write##name(void* address) { announce(address, bytes, writing, HERE); }
PLANGRAD_ACCESS(1, 1)
PLANGRAD_ACCESS(2, 2)
PLANGRAD_ACCESS(4, 4)
PLANGRAD_ACCESS(8, 8)
PLANGRAD_ACCESS(16, 16)
#undef PLANGRAD_ACCESS

void __tsan_read_range(void* start, std::size_t bytes) { announce(start, bytes, reading, HERE); }
void __tsan_write_range(void* start, std::size_t bytes) { announce(start, bytes, writing, HERE); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Atomic operations are carried out by the call itself.
#define PLANGRAD_NOTE(bits, how) \
  announce(const_cast<const Word##bits*>(address), bits / 8, how, HERE)
#define PLANGRAD_FETCH(bits, name)                                                              \
  Word##bits __tsan_atomic##bits##_fetch_##name(volatile Word##bits* address, Word##bits value, \
                                                int) {                                          \
    PLANGRAD_NOTE(bits, atomic_update);                                                         \
    return __atomic_fetch_##name(address, value, __ATOMIC_SEQ_CST);                             \
  }
#define PLANGRAD_EXCHANGE_IF(bits, name)                                                    \
  int __tsan_atomic##bits##_compare_exchange_##name(                                        \
      volatile Word##bits* address, Word##bits* expected, Word##bits desired, int, int) {   \
    PLANGRAD_NOTE(bits, atomic_update);                                                     \
    return __atomic_compare_exchange_n(address, expected, desired, false, __ATOMIC_SEQ_CST, \
                                       __ATOMIC_SEQ_CST);                                   \
  }
#define PLANGRAD_ATOMICS(bits)                                                                     \
  Word##bits __tsan_atomic##bits##_load(const volatile Word##bits* address, int) {                 \
    PLANGRAD_NOTE(bits, atomic_read);                                                              \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile Word##bits* address, Word##bits value, int) {          \
    PLANGRAD_NOTE(bits, atomic_write);                                                             \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  Word##bits __tsan_atomic##bits##_exchange(volatile Word##bits* address, Word##bits value, int) { \
    PLANGRAD_NOTE(bits, atomic_update);                                                            \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                                  \
  }                                                                                                \
  PLANGRAD_FETCH(bits, add)                                                                        \
  PLANGRAD_FETCH(bits, sub)                                                                        \
  PLANGRAD_FETCH(bits, and)                                                                        \
  PLANGRAD_FETCH(bits, or)                                                                         \
  PLANGRAD_FETCH(bits, xor)                                                                        \
  PLANGRAD_EXCHANGE_IF(bits, strong)                                                               \
  PLANGRAD_EXCHANGE_IF(bits, weak)
PLANGRAD_ATOMICS(8)
PLANGRAD_ATOMICS(16)
PLANGRAD_ATOMICS(32)
PLANGRAD_ATOMICS(64)
#undef PLANGRAD_NOTE
#undef PLANGRAD_ATOMICS
#undef PLANGRAD_FETCH
#undef PLANGRAD_EXCHANGE_IF

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

// The linker has all calls of C's functions come here (--wrap).
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __real_memmove(void* to, const void* from, std::size_t bytes);
void* __real_memset(void* start, int value, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  moved(to, from, bytes, HERE);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  moved(to, from, bytes, HERE);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* start, int value, std::size_t bytes) {
  moved(start, nullptr, bytes, HERE);
  return __real_memset(start, value, bytes);
}
}  // extern "C"
