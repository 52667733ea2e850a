// SegmentTable: runs of elements that one launch works on, with the blocks of each.
// Not here: the work (optimizer.cu, squares.cu).
// CUDA C++ Programming Guide, function parameters: all of a kernel's may have 4 KiB.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda/launch/device.h"

namespace plangrad::cuda {

/// A kernel's parameter that tells a block its segment: segment s has the blocks from
/// first_block[s] to that of the next one.
template <class Segment>
struct SegmentTable {
  static constexpr int most = 3840 / (sizeof(Segment) + sizeof(unsigned));

  int count = 0;
  unsigned blocks = 0;
  unsigned first_block[most];
  Segment at[most];

  /// The last segment that begins at this block or before it.
  __device__ int segment_of(unsigned block) const {
    int found = 0;
    for (int end = count; end - found > 1;) {
      const int middle = (found + end) / 2;
      (first_block[middle] <= block ? found : end) = middle;
    }
    return found;
  }
};

/// Calls launch(table) for tables that hold all segments in their order, as few as can be; segment
/// s has blocks_of(s) blocks.
template <class Segment, class BlocksOf, class Launch>
void for_tables(const std::vector<Segment>& segments, BlocksOf blocks_of, Launch launch) {
  for (auto next = segments.begin(); next != segments.end();) {
    SegmentTable<Segment> table;
    // Graphs compare all its bytes, also those past the last segment and between members.
    std::memset(static_cast<void*>(&table), 0, sizeof table);
    for (; next != segments.end() && table.count < table.most; ++next) {
      table.first_block[table.count] = table.blocks;
      table.at[table.count++] = *next;
      table.blocks += blocks_of(*next);
    }
    launch(table);
  }
}

}  // namespace plangrad::cuda
