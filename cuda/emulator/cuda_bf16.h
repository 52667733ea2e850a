// bf16 under CUDA's name: kernels convert to float, compute, and convert back.
// Not here: arithmetic in bf16, whose roundings would differ from a GPU's.
// CUDA Math API, bfloat16 precision conversion.
#pragma once

#include "autograd/dtype.h"

struct __nv_bfloat16 {
  unsigned short bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 x) {
  plangrad::autograd::bf16 value;
  value.bits = x.bits;
  return value;
}
/// Rounds to nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16(float x) { return {plangrad::autograd::bf16::round(x)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16(x), __float2bfloat16(y)};
}
