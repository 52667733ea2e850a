// What the kernels share that write values as bytes and read them.
// Not here: the kernels (quantize.cpp, sparse_values.cpp).
// Chapter 10.
#pragma once

#include <cstring>

#include "autograd/dtype.h"

namespace paragrad::autograd::cpu {

/// Calls `kernel.template operator()<T>()` with the type of values that travel encoded.
template <class Kernel>
void dispatch_encoded(DType dtype, Kernel&& kernel) {
  PG_CHECK(dtype == DType::f32 || dtype == DType::bf16, "codecs act on f32 and bf16, not ", dtype);
  dtype == DType::f32 ? kernel.template operator()<float>() : kernel.template operator()<bf16>();
}

/// Item i of an array of T, which may begin at any byte of a message.
template <class T>
T read(const std::byte* array, std::int64_t i) {
  T item;
  std::memcpy(&item, array + i * sizeof item, sizeof item);
  return item;
}
template <class T>
void write(std::byte* array, std::int64_t i, T item) {
  std::memcpy(array + i * sizeof item, &item, sizeof item);
}

}  // namespace paragrad::autograd::cpu
