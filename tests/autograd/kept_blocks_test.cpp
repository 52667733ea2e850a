// Freed blocks of host memory: they are taken again, and never more than the bound stays.
#include "autograd/cpu/cpu_backend.h"

#include <algorithm>

#include "autograd/random.h"
#include "tests/catch.h"
#include "tests/sanitized.h"

using namespace plangrad::autograd;

namespace {

constexpr std::int64_t mega = 1 << 20;

}  // namespace

TEST_CASE("kept blocks: a freed block is taken again, the one that was freed last first",
          "[memory]") {
  KeptBlocks blocks;
  void *first = blocks.take(1000), *second = blocks.take(1000), *other = blocks.take(5000);
  CHECK(blocks.bytes_in_use() >= 7000);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  blocks.put_back(first, 1000);
  blocks.put_back(second, 1000);
  if (!plangrad::tests::sanitized) {
    CHECK(blocks.bytes_kept() >= 2000);
    CHECK(blocks.take(1000) == second);
    CHECK(blocks.take(1001) == first);  // sizes that are nearly equal share blocks
    blocks.put_back(first, 1001);
    blocks.put_back(second, 1000);
  }
  blocks.put_back(other, 5000);
  CHECK(blocks.bytes_in_use() == 0);
}

TEST_CASE("kept blocks: sizes that are never asked for again go back to the system", "[memory]") {
  KeptBlocks blocks;
  for (std::int64_t size = mega; size < 2 * mega; size += mega / 64)  // all of 1 to 2 MiB
    blocks.put_back(blocks.take(size), size);
  CHECK(blocks.bytes_in_use() == 0);
  CHECK(blocks.bytes_kept() <= KeptBlocks::slack + 3 * mega);
}

TEST_CASE("kept blocks: with those in use they stay within the bound, at every moment",
          "[memory]") {
  KeptBlocks blocks;
  const RandomKey key(7, "kept blocks");
  std::vector<std::pair<void*, std::int64_t>> held;
  std::int64_t most = 0;
  bool within = true, intact = true;
  for (std::int64_t i = 0; i < 4000; ++i) {
    const double which = uniform(key, 2 * i), draw = uniform(key, 2 * i + 1);
    const bool take = which < (i / 1000 % 2 ? 0.4 : 0.6) || held.empty();  // grows, then shrinks
    if (take) {
      const auto bytes = static_cast<std::int64_t>(draw * draw * draw * 4 * mega);
      auto* data = static_cast<char*>(blocks.take(bytes));
      if (bytes > 0) data[0] = data[bytes - 1] = static_cast<char>(bytes);
      held.emplace_back(data, bytes);
    } else {
      std::swap(held[static_cast<std::size_t>(draw * held.size())], held.back());
      const auto [data, bytes] = held.back();
      if (bytes > 0) intact &= static_cast<char*>(data)[bytes - 1] == static_cast<char>(bytes);
      blocks.put_back(data, bytes);
      held.pop_back();
    }
    most = std::max(most, blocks.bytes_in_use());
    within &= blocks.bytes_in_use() + blocks.bytes_kept() <= most + most / 2 + KeptBlocks::slack;
  }
  CHECK(within);
  CHECK(intact);
  for (const auto& [data, bytes] : held) blocks.put_back(data, bytes);
  CHECK(blocks.bytes_in_use() == 0);
}
