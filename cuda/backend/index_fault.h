// IndexFault: an index that a kernel found outside its tensor, kept until the host asks.
// Not here: when it asks (cuda/backend/cuda_backend.h).
// Chapter 03.
#pragma once

#include <cstdint>

#include "cuda/launch/device.h"

namespace paragrad::cuda {

/// Which kernel met the index.
enum class IndexUse : int { none, gather, expand, collect, scatter, cross_entropy, embedding };

/// The first one since the host last asked; `use` is none without one. In device memory.
struct IndexFault {
  int use = 0;
  int index = 0;
  std::int64_t limit = 0;
};

/// Whether the index is in [0, limit). If not, that is noted, and the kernel must leave the element
/// alone.
__device__ inline bool inside(int index, std::int64_t limit, IndexUse use, IndexFault* fault) {
  if (index >= 0 && index < limit) return true;
  if (atomicCAS(&fault->use, 0, static_cast<int>(use)) == 0) {
    fault->index = index;
    fault->limit = limit;
  }
  return false;
}

}  // namespace paragrad::cuda
