// Asynchronous copies, and a warp's matrix instructions: the layout of each lane's numbers.
// Not here: a GPU's rounding inside of a product; compare with a tolerance.
// PTX ISA, cp.async, ldmatrix, mma.m16n8k16 and wgmma.m64n64k16.
#include <algorithm>
#include <array>

#include "cuda/emulator/block.h"
#include "cuda/emulator/cuda_bf16.h"
#include "cuda/emulator/device_emulated.h"
#include "cuda/emulator/observer.h"

namespace plangrad::cuda {

namespace emulator {

namespace {

/// The bf16 in the low or high half of a register.
float half_of(unsigned pair, int which) {
  return __bfloat162float({static_cast<unsigned short>(pair >> (16 * which))});
}

struct MatrixLoad {
  const void* row;
  std::array<unsigned, 4> fragment;
};

/// Lane 4 r + c receives elements (r, 2 c) and (r, 2 c + 1), or their mirror images.
template <bool transposed>
void load_all(void* const* records) {
  auto lane = [&](int i) -> MatrixLoad& { return *static_cast<MatrixLoad*>(records[i]); };
  for (int i = 0; i < warpSize; ++i)
    for (int matrix = 0; matrix < 4; ++matrix) {
      auto element = [&](int r, int c) -> unsigned {
        if (transposed) std::swap(r, c);
        return static_cast<const unsigned short*>(lane(8 * matrix + r).row)[c];
      };
      int r = i / 4, c = 2 * (i % 4);
      lane(i).fragment[matrix] = element(r, c) | element(r, c + 1) << 16;
    }
}

struct Fragments {
  std::array<float, 4> c;
  std::array<unsigned, 4> a;
  std::array<unsigned, 2> b;
};

/// Calls put(row, column, value) for the elements that lane i has of a left operand (16,16).
template <class Put>
void for_left(int i, const std::array<unsigned, 4>& a, Put put) {
  for (int half = 0; half < 2; ++half)
    for (int j = 0; j < 4; ++j)
      put(i / 4 + 8 * (j % 2), 2 * (i % 4) + half + 8 * (j / 2), half_of(a[j], half));
}

void multiply_all(void* const* records) {
  auto lane = [&](int i) -> Fragments& { return *static_cast<Fragments*>(records[i]); };
  float a[16][16], b[16][8];
  for (int i = 0; i < warpSize; ++i) {
    for_left(i, lane(i).a, [&](int row, int column, float x) { a[row][column] = x; });
    for (int half = 0; half < 2; ++half)
      for (int j = 0; j < 2; ++j)
        b[2 * (i % 4) + half + 8 * j][i / 4] = half_of(lane(i).b[j], half);
  }
  for (int i = 0; i < warpSize; ++i)
    for (int j = 0; j < 4; ++j) {
      int row = i / 4 + 8 * (j / 2), column = 2 * (i % 4) + j % 2;
      float& sum = lane(i).c[j];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
    }
}

/// The bytes at (row, byte of the row) of a swizzled matrix.
const std::byte* byte_of(SharedMatrix x, int row, int byte) {
  auto address =
      reinterpret_cast<std::uintptr_t>(x.first) + row / 8 * x.eight + row % 8 * 128 + byte;
  return reinterpret_cast<const std::byte*>(address ^ (address >> 7 & 7) << 4);
}

struct GroupFragments {
  float (*c)[4];
  std::array<unsigned, 4> a;
  SharedMatrix b;
};

/// A warp's share of wgmma: its own 16 rows.
template <bool by_columns>
void multiply_by_shared(void* const* records) {
  auto lane = [&](int i) -> GroupFragments& { return *static_cast<GroupFragments*>(records[i]); };
  float a[16][16], b[16][64];
  for (int i = 0; i < warpSize; ++i)
    for_left(i, lane(i).a, [&](int row, int column, float x) { a[row][column] = x; });
  for (int k = 0; k < 16; ++k)
    for (int n = 0; n < 64; ++n) {
      __nv_bfloat16 x;
      std::memcpy(&x, byte_of(lane(0).b, by_columns ? n : k, 2 * (by_columns ? k : n)), sizeof x);
      b[k][n] = __bfloat162float(x);
    }
  for (int i = 0; i < warpSize; ++i)
    for (int n = 0; n < 8; ++n)
      for (int e = 0; e < 4; ++e)
        for (int k = 0; k < 16; ++k)
          lane(i).c[n][e] += a[i / 4 + 8 * (e / 2)][k] * b[k][8 * n + 2 * (i % 4) + e % 2];
}

}  // namespace

void wait_for_copies(int kept) {
  PendingCopies& pending = Block::current()->pending_copies();
  auto arrives = [&](const auto& copy) { return copy.group < pending.groups - kept; };
  for (const auto& copy : pending.copies) {
    if (!arrives(copy)) continue;
    note(copy.to, 16, arriving, __builtin_return_address(0));
    if (copy.from)
      std::memcpy(copy.to, copy.from, 16);
    else
      std::memset(copy.to, 0, 16);
  }
  std::erase_if(pending.copies, arrives);
}

void load_matrices(const char* name, std::source_location where, unsigned (&fragment)[4],
                   const void* row, bool transposed) {
  check_alignment(name, where, row, 16);
  note(row, 16, reading, __builtin_return_address(0));
  MatrixLoad load{row, {}};
  warp_operation(name, where, ~0u, &load, transposed ? load_all<true> : load_all<false>);
  std::copy(load.fragment.begin(), load.fragment.end(), fragment);
}

}  // namespace emulator

void cp_async_16(void* shared, const void* global, std::source_location where) {
  cp_async_16_or_zeros(shared, global, true, where);
}

void cp_async_16_or_zeros(void* shared, const void* global, bool exists,
                          std::source_location where) {
  emulator::check_alignment("cp_async_16", where, shared, 16);
  if (exists) emulator::check_alignment("cp_async_16", where, global, 16);
  if (exists) emulator::note(global, 16, emulator::reading, __builtin_return_address(0));
  emulator::note(shared, 16, emulator::pending, __builtin_return_address(0));
  emulator::Unwatched own_work;
  emulator::PendingCopies& pending = emulator::Block::current()->pending_copies();
  pending.copies.push_back({shared, exists ? global : nullptr, pending.groups});
}

void cp_async_commit() { ++emulator::Block::current()->pending_copies().groups; }

void mma_16816(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
               std::source_location where) {
  emulator::Fragments mine{std::to_array(c), std::to_array(a), std::to_array(b)};
  emulator::warp_operation("mma_16816", where, ~0u, &mine, emulator::multiply_all);
  std::copy(mine.c.begin(), mine.c.end(), c);
}

template <bool by_columns>
void wgmma_64x64x16(float (&c)[8][4], const unsigned (&a)[4], SharedMatrix b,
                    std::source_location where) {
  constexpr int rows = by_columns ? 64 : 16, pieces = by_columns ? 2 : 8;  // of 16 bytes
  for (unsigned i = threadIdx.x % 32; i < rows * pieces; i += 32)
    emulator::note(emulator::byte_of(b, i % rows, i / rows * 16), 16, emulator::reading,
                   __builtin_return_address(0));
  emulator::GroupFragments mine{c, std::to_array(a), b};
  emulator::warp_operation("wgmma_64x64x16", where, ~0u, &mine,
                           emulator::multiply_by_shared<by_columns>);
}
template void wgmma_64x64x16<false>(float (&)[8][4], const unsigned (&)[4], SharedMatrix,
                                    std::source_location);
template void wgmma_64x64x16<true>(float (&)[8][4], const unsigned (&)[4], SharedMatrix,
                                   std::source_location);

}  // namespace plangrad::cuda
