// The switch between stacks, in assembly: library calls for it (ucontext) cost ten times as much,
// because they make a system call for the signal mask.
// Not here: which thread runs next (block.cpp). AArch64 has not been run.
// System V ABI, AMD64 supplement, section 3.2.1; Procedure Call Standard for AArch64, section 6.1.
#include "cuda/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "autograd/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// plangrad_switch(void** save, void* load): pushes what a call must preserve, leaves the stack
// pointer in *save, takes `load` for it, pops.
extern "C" void plangrad_switch(void** save, void* load);

#if defined(__x86_64__)
asm(R"(
.text
.globl plangrad_switch
.type plangrad_switch, @function
plangrad_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size plangrad_switch, .-plangrad_switch
)");
constexpr int saved_words = 8;   // six registers, the address to return to, and one for alignment
constexpr int address_word = 6;  // which of them `ret` takes
#elif defined(__aarch64__)
asm(R"(
.text
.globl plangrad_switch
.type plangrad_switch, %function
plangrad_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size plangrad_switch, .-plangrad_switch
)");
constexpr int saved_words = 20;
constexpr int address_word = 11;  // x30
#else
#error "The emulator switches stacks on x86-64 and AArch64; add plangrad_switch for this processor."
#endif

namespace plangrad::cuda::emulator {

namespace {

constexpr std::size_t page = 65536;  // a multiple of every processor's page size
#if defined(__SANITIZE_ADDRESS__)
thread_local Context* left;  // the context that this thread has just switched away from

void arrive(void* fake_stack) {
  __sanitizer_finish_switch_fiber(fake_stack, &left->bottom, &left->size);
}
#endif

thread_local void (*body_to_start)();

/// The first code on a fresh stack. Not instrumented: its red zones would never be lifted.
__attribute__((no_sanitize("address", "undefined"))) void first_frame() {
#if defined(__SANITIZE_ADDRESS__)
  arrive(nullptr);
#endif
  body_to_start();
  __builtin_trap();
}

}  // namespace

void switch_context(Context& from, Context& to) {
#if defined(__SANITIZE_ADDRESS__)
  left = &from;
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size);
  plangrad_switch(&from.stack_pointer, to.stack_pointer);
  arrive(from.fake_stack);
#else
  plangrad_switch(&from.stack_pointer, to.stack_pointer);
#endif
}

/// Tops are staggered: at equal distances of 64 KiB, all would fall into the same lines of a cache.
Fiber::Fiber(int index) : stagger_(64 * (index % 64)) {
  void* memory = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PG_CHECK(memory != MAP_FAILED && mprotect(memory, page, PROT_NONE) == 0,
           "emulator: no room for the stack of a CUDA thread, ", stack_bytes, " bytes");
  memory_ = static_cast<std::byte*>(memory);
  bottom = memory_ + page;
  size = stack_bytes;
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory_ + page, stack_bytes);
#endif
  munmap(memory_, page + stack_bytes);
}

void Fiber::start(void (*body)()) {
  std::byte* top = memory_ + page + stack_bytes - stagger_;
#if defined(__SANITIZE_ADDRESS__)
  constexpr int body_frames = 4096;  // of the last body, which has not returned
  __asan_unpoison_memory_region(top - body_frames, body_frames);
  fake_stack = nullptr;
#endif
  body_to_start = body;
  auto* words = reinterpret_cast<std::uint64_t*>(top);
  words -= saved_words;
  for (int i = 0; i < saved_words; ++i) words[i] = 0;  // a debugger's walk ends at frame 0
  words[address_word] = reinterpret_cast<std::uint64_t>(&first_frame);
  stack_pointer = words;
}

bool Fiber::overflowed_at(const void* address) const {
  return address >= memory_ && address < memory_ + page;
}

}  // namespace plangrad::cuda::emulator
