// Reports: printed before the end, or remembered for tests.
// Not here: the checks, which say what is wrong.
// signal(7) on what a handler may do. Ours does more, after a fault in code that holds no lock of
// the C library: a kernel, or a host's access to device memory.
#include "cuda/emulator/report.h"

#include <signal.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "autograd/error.h"
#include "cuda/emulator/block.h"
#include "cuda/emulator/device_memory.h"
#include "cuda/emulator/observer.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__SANITIZE_THREAD__)
/// ThreadSanitizer would report that on_fault allocates.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }
#endif

namespace plangrad::cuda::emulator {

using autograd::text;

namespace {

std::mutex mutex;
std::string remembered;
struct sigaction previous;

std::string with_thread(const std::string& what) {
  const Block* block = Block::current();
  return block ? text("CUDA emulator: ", block->describe(), ": ", what, '\n')
               : text("CUDA emulator: ", what, '\n');
}

/// Explains the fault, which then happens again under the handler that was there before.
void on_fault(int, siginfo_t* info, void*) {
  sigaction(SIGSEGV, &previous, nullptr);
  Block* block = Block::current();
  if (!block && !is_device_address(info->si_addr)) return;  // not our matter
  std::string what = block && block->overflowed_at(info->si_addr)
                         ? text("its variables need more than the ", Fiber::stack_bytes / 1024,
                                " KiB of its stack")
                         : text("invalid access to ", describe_address(info->si_addr));
  std::fputs(with_thread(what).c_str(), stderr);
}

}  // namespace

void report(const std::string& what) {
  Unwatched own_work;
  if (settings().abort_on_fault) {
    std::fputs(with_thread(what).c_str(), stderr);
    std::abort();
  }
  std::lock_guard lock(mutex);
  remembered += with_thread(what);
}

std::string take_reports() {
  std::lock_guard lock(mutex);
  return std::exchange(remembered, {});
}

/// AddressSanitizer explains most accesses by itself, but doesn't know threads of a kernel.
void explain_faults() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback([] {
    if (Block::current()) std::fputs(with_thread("see the report above").c_str(), stderr);
  });
#endif
  struct sigaction action = {}, now = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  std::lock_guard lock(mutex);
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_sigaction == on_fault) return;
  sigaction(SIGSEGV, &action, &previous);
}

void prepare_thread() {
  struct SignalStack {
    std::array<std::byte, 64 * 1024> memory;
    stack_t before;
    SignalStack() {
      explain_faults();
      stack_t mine{memory.data(), 0, memory.size()};
      sigaltstack(&mine, &before);
    }
    ~SignalStack() { sigaltstack(&before, nullptr); }
  };
  static thread_local auto stack = std::make_unique<SignalStack>();
}

}  // namespace plangrad::cuda::emulator
