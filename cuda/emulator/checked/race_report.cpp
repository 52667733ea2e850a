// The reports of the checked build.
// Not here: when they are made (watch.cpp).
// addr2line is part of GNU binutils, which compilers need anyway.
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "autograd/error.h"
#include "cuda/emulator/checked/watch.h"

namespace plangrad::cuda::emulator {

using autograd::text;

namespace {

/// The place of a program's address in its file.
std::uintptr_t address_in_file(std::uint32_t code) {
  auto first = [](dl_phdr_info* program, std::size_t, void* loaded_at) {
    *static_cast<std::uintptr_t*>(loaded_at) = program->dlpi_addr;
    return 1;
  };
  std::uintptr_t loaded_at = 0;
  dl_iterate_phdr(first, &loaded_at);
  return reinterpret_cast<std::uintptr_t>(&__executable_start) + code - loaded_at;
}

const char* verb_of(Use use) {
  if (use.reads && use.writes) return "updates ";
  return use.writes ? "writes " : "reads ";
}

}  // namespace

/// addr2line prints the functions that were compiled into each other from the innermost on; we
/// take the first that is not the emulator's. `code` is where the access returns to, a byte late.
std::string line_of(std::uint32_t code) {
  if (code == 0) return "";
  std::array<char, 4096> line{};
  const ssize_t length = readlink("/proc/self/exe", line.data(), line.size() - 1);
  const std::string program(line.data(), length > 0 ? length : 0);
  const std::string command = text("addr2line -i -e '", program, "' ", std::hex, "0x",
                                   address_in_file(code) - 1, " 2>/dev/null");
  std::unique_ptr<FILE, int (*)(FILE*)> lines(popen(command.c_str(), "r"), pclose);
  while (lines && std::fgets(line.data(), line.size(), lines.get())) {
    std::string_view place = line.data();
    place = place.substr(0, place.find_first_of(" \n"));  // behind it, more about blocks of code
    if (place.starts_with('?')) return "";
    if (place.find("cuda/emulator/") == place.npos) return text(" (", place, ')');
  }
  return "";
}

std::string Watch::explain(const Fault& fault, std::uintptr_t address, Use use, const Access& now) {
  const std::string_view what = fault.what;
  if (what == "invalid") return text("invalid access to ", describe(address));
  const std::string here = text(verb_of(use), describe(address), line_of(now.code));
  if (what == "unwritten") return text(here, ", which nobody has written");

  if (fault.other.who == 0) return text(here, "; ", what);

  const Access& other = fault.other;
  const bool same_block = other.who == now.who && Block::current();
  const std::string who = actors_.describe(other), there = line_of(other.code);
  if (what == "pending")
    return text(here, ", where an asynchronous copy is to arrive that ", who, " has begun", there,
                "; cp_async_wait must come before, and a barrier if threads differ");
  std::string missing = "no event and no wait of the host orders the two";
  if (same_block && other.thread / 32 == now.thread / 32)
    missing = "__syncwarp or __syncthreads must stand between";
  else if (same_block)
    missing = "__syncthreads must stand between";
  else if (actors_.is_of_current(other))
    missing = "blocks of a launch have no order";
  return text("race: ", here, ", which ", who, other.wrote ? " wrote" : " read", there, "; ",
              missing);
}

}  // namespace plangrad::cuda::emulator
