// What codecs' kernels share: messages as bytes, in which an item may begin anywhere; magnitudes.
// Not here: what the items mean (quantize.cu, sparse_values.cu).
// Chapter 10.
#pragma once

#include <cstring>

#include "autograd/magnitude.h"
#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

using Byte = std::uint8_t;

/// Item i of an array of T.
template <class T>
__device__ T read_item(const Byte* array, std::int64_t i) {
  T item;
  memcpy(&item, array + i * sizeof item, sizeof item);
  return item;
}
template <class T>
__device__ void write_item(Byte* array, std::int64_t i, T item) {
  memcpy(array + i * sizeof item, &item, sizeof item);
}

using autograd::infinity_key;
using autograd::key_of;
using Key = autograd::MagnitudeKey;

}  // namespace paragrad::cuda
