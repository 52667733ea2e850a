// Stacks that one processor thread switches between: each CUDA thread that waits keeps its own.
// Not here: the choice of the next thread (block.h).
#pragma once

#include <cstddef>

namespace plangrad::cuda::emulator {

/// The point at which code has stopped: a stack pointer, and what AddressSanitizer must know.
struct Context {
  void* stack_pointer = nullptr;
  const void* bottom = nullptr;
  std::size_t size = 0;
  void* fake_stack = nullptr;
};

/// Stops here, in `from`, and continues in `to`; returns when something switches to `from`.
void switch_context(Context& from, Context& to);

/// A stack above an unmapped page, which catches its overflow.
class Fiber : public Context {
 public:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t stack_bytes = 256 * 1024;  // red zones need room
#else
  static constexpr std::size_t stack_bytes = 64 * 1024;
#endif

  explicit Fiber(int index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch, which must be to this fiber, calls `body`, which must never return. What
  /// stood on the stack is forgotten.
  void start(void (*body)());
  bool overflowed_at(const void* address) const;

 private:
  std::byte* memory_;  // the guard page, then the stack
  std::size_t stagger_;
};

}  // namespace plangrad::cuda::emulator
