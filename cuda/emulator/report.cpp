// Reports, printed before the end or remembered for tests, and the names of kernels in them, from
// the symbol table of the program or library that a kernel is in.
// Not here: the checks, which say what is wrong.
// signal(7) on what a handler may do. Ours does more, after a fault in code that holds no lock of
// the C library: a kernel, or a host's access to device memory. System V ABI, chapter 4 (ELF).
#include "cuda/emulator/emulator.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

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

void report(const std::function<std::string()>& words) {
  Unwatched own_work;
  report(words());
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

namespace {

using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);

template <class T>
std::vector<T> read(std::ifstream& file, std::uint64_t offset, std::uint64_t bytes) {
  std::vector<T> result(bytes / sizeof(T));
  file.seekg(offset);
  file.read(reinterpret_cast<char*>(result.data()), result.size() * sizeof(T));
  return result;
}

/// The name of the symbol at this address of the file; "" without one. The full table knows static
/// functions as well, which dladdr doesn't.
std::string find_symbol(const char* path, std::uint64_t address, std::uint64_t loaded_at) {
  std::ifstream file(path, std::ios::binary);
  auto header = read<ElfW(Ehdr)>(file, 0, sizeof(ElfW(Ehdr)));
  if (!file || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return "";
  if (header[0].e_type == ET_DYN) address -= loaded_at;
  auto sections = read<Section>(file, header[0].e_shoff, header[0].e_shnum * sizeof(Section));
  for (const Section& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const Section& strings = sections.at(section.sh_link);
    auto names = read<char>(file, strings.sh_offset, strings.sh_size);
    for (const Symbol& symbol : read<Symbol>(file, section.sh_offset, section.sh_size))
      if (symbol.st_value == address && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        return names.data() + symbol.st_name;
  }
  return "";
}

}  // namespace

std::string name_of_function(const void* function) {
  Dl_info info{};
  std::string mangled;
  if (dladdr(function, &info))
    mangled = find_symbol(info.dli_fname, reinterpret_cast<std::uint64_t>(function),
                          reinterpret_cast<std::uint64_t>(info.dli_fbase));
  if (mangled.empty()) return autograd::text("at ", function);
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? demangled.get() : mangled;
}

}  // namespace plangrad::cuda::emulator
