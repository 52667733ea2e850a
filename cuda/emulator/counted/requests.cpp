// What a warp's request takes.
// Not here: whose requests they are (counter.cpp).
// CUDA C++ Programming Guide, compute capability 5.x: shared memory, which later ones share.
#include "cuda/emulator/counted/requests.h"

#include <algorithm>
#include <bit>

namespace plangrad::cuda::emulator {

namespace {

/// Calls visit(lane) for each bit.
template <class Visit>
void visit_lanes(std::uint32_t lanes, Visit visit) {
  for (; lanes; lanes &= lanes - 1) visit(std::countr_zero(lanes));
}

/// Passes for lanes that together ask for at most 128 bytes: the most words of one bank.
int passes_of_part(const Request& request, std::uint32_t lanes, std::size_t bytes) {
  std::array<std::uintptr_t, 64> words;
  int count = 0;
  visit_lanes(lanes, [&](int lane) {
    const std::uintptr_t at = request.at[lane];
    for (std::uintptr_t word = at / 4; word <= (at + bytes - 1) / 4; ++word) words[count++] = word;
  });
  std::sort(words.begin(), words.begin() + count);
  const auto end = std::unique(words.begin(), words.begin() + count);
  std::array<int, 32> of_bank{};
  for (auto word = words.begin(); word != end; ++word) ++of_bank[*word % 32];
  return *std::max_element(of_bank.begin(), of_bank.end());
}

}  // namespace

int Sectors::lines() const {
  int result = 0;
  for (int i = 0; i < count; ++i) result += i == 0 || numbers[i] / 4 != numbers[i - 1] / 4;
  return result;
}

Sectors sectors_of(const Request& request, std::size_t bytes) {
  Sectors result;
  auto add = [&](std::uintptr_t sector) {
    if (result.count == 0 || result.numbers[result.count - 1] != sector)
      result.numbers[result.count++] = sector;
  };
  visit_lanes(request.lanes, [&](int lane) {
    add(request.at[lane] / Sectors::bytes);
    add((request.at[lane] + bytes - 1) / Sectors::bytes);
  });
  const auto first = result.numbers.begin();
  std::sort(first, first + result.count);
  result.count = static_cast<int>(std::unique(first, first + result.count) - first);
  return result;
}

Passes passes_of(const Request& request, std::size_t bytes) {
  const int parts = bytes <= 4 ? 1 : bytes <= 8 ? 2 : 4;
  const std::uint32_t first = ~0u >> (32 - 32 / parts);
  Passes result;
  for (int part = 0; part < parts; ++part) {
    const std::uint32_t lanes = request.lanes & first << 32 / parts * part;
    if (!lanes) continue;
    const int passes = passes_of_part(request, lanes, bytes);
    result.count += passes;
    result.conflicts += passes - 1;
  }
  return result;
}

/// Instructions follow each other as they did the last time.
WarpRequests::Instruction& WarpRequests::find(AccessKind access, std::size_t bytes,
                                              const void* code) {
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    if (next_ >= instructions_.size()) next_ = 0;
    Instruction& each = instructions_[next_++];
    if (each.code == code && each.access == access && each.bytes == bytes) return each;
  }
  next_ = 0;
  return instructions_.emplace_back(Instruction{code, access, bytes});
}

void WarpRequests::add(int lane, AccessKind access, std::uintptr_t address, std::size_t bytes,
                       const void* code) {
  Instruction& instruction = find(access, bytes, code);
  const std::uint32_t time = instruction.times[lane]++;
  if (time == instruction.requests.size()) instruction.requests.emplace_back();
  Request& request = instruction.requests[time];
  request.lanes |= 1u << lane;
  request.at[lane] = address;
}

}  // namespace plangrad::cuda::emulator
