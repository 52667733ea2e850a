// The name of a kernel, for reports, from the symbol table of the program or library it is in.
// Not here: its line; threads report the lines of their barriers.
// System V ABI, chapter 4 (object files: ELF, symbol table).
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "autograd/error.h"
#include "cuda/emulator/report.h"

namespace plangrad::cuda::emulator {

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
