// Max-min quantization of buckets: one kernel finds the buckets' levels, with a block per bucket;
// another one packs the elements' levels, 8 per thread. The bytes equal the CPU's bit for bit, so
// no multiplication is fused with an addition.
// Not here: compressed sums. Chapter 10; Markov et al. 2022, "CGX".
#include "autograd/formulas.h"
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {
namespace {

using Byte = std::uint8_t;

/// The type of a message's bucket levels for values of type T.
template <class T>
using Stored = std::conditional_t<sizeof(T) == sizeof(float), float, bf16>;

/// The parts of a message of n values: the buckets' levels, then the elements' packed levels.
struct Layout {
  std::int64_t count, bucket;
  int bits;

  __host__ __device__ std::int64_t buckets() const { return (count + bucket - 1) / bucket; }
  __host__ __device__ std::int64_t groups() const { return (count + 7) / 8; }
  __host__ __device__ std::int64_t packed_bytes() const { return (count * bits + 7) / 8; }
  template <class T>
  __host__ __device__ std::int64_t packed() const {
    return buckets() * static_cast<std::int64_t>(sizeof(Levels<Stored<T>>));
  }
  /// Calls body(j, i, scale) for each element i of group g, its j-th.
  template <class T, class Body>
  __device__ void for_group(const Byte* bytes, std::int64_t g, Body body) const {
    const std::int64_t first = 8 * g;
    std::int64_t at = first / bucket;
    Scale scale(read_item<Levels<Stored<T>>>(bytes, at));
    for (int j = 0; j < 8 && first + j < count; ++j) {
      if (first + j == (at + 1) * bucket) scale = Scale(read_item<Levels<Stored<T>>>(bytes, ++at));
      body(j, first + j, scale);
    }
  }
};

template <class T>
__global__ void levels_kernel(Layout m, const T* x, Byte* bytes) {
  const std::int64_t first = blockIdx.x * m.bucket, end = min(first + m.bucket, m.count);
  float low = INFINITY, high = -INFINITY, strange = 0;
  for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
    const float value = to_float(x[i]);
    low = min(low, value);
    high = max(high, value);
    if (!(fabsf(value) <= largest<Stored<T>>)) strange = 1;
  }
  low = -block_max(-low);
  high = block_max(high);
  const bool finite = block_max(strange) == 0;
  if (threadIdx.x > 0) return;
  write_item(
      bytes, blockIdx.x,
      finite ? levels_between<Stored<T>>(low, high, (1 << m.bits) - 1) : no_levels<Stored<T>>());
}

template <class T>
__device__ void pack_group(std::int64_t g, Layout m, const T* x, bool stochastic, RandomKey key,
                           Byte* bytes) {
  float random[8];
  for (int half = 0; half < 2 && stochastic; ++half) {
    const auto word = philox(key, 2 * g + half);
    for (int i = 0; i < 4; ++i) random[4 * half + i] = to_uniform(word[i]);
  }
  const auto top = static_cast<float>((1 << m.bits) - 1);
  std::uint64_t word = 0;
  m.for_group<T>(bytes, g, [&](int j, std::int64_t i, Scale s) {
    const float distance = __fmul_rn(s.shrink, to_float(x[i])) - s.min;
    const float t = __fmul_rn(distance, s.inverse) + (stochastic ? random[j] : 0.5f);
    word |= static_cast<std::uint64_t>(t < top ? t : top) << (m.bits * j);
  });
  for (std::int64_t b = m.bits * g; b < min(m.bits * (g + 1), m.packed_bytes()); ++b, word >>= 8)
    bytes[m.packed<T>() + b] = static_cast<Byte>(word);
}

template <class T>
__device__ void unpack_group(std::int64_t g, Layout m, const Byte* bytes, T* y) {
  std::uint64_t word = 0;
  for (int b = 0; b < m.bits && m.bits * g + b < m.packed_bytes(); ++b)
    word |= std::uint64_t{bytes[m.packed<T>() + m.bits * g + b]} << (8 * b);
  m.for_group<T>(bytes, g, [&](int j, std::int64_t i, Scale s) {
    const auto level = static_cast<float>(word >> (m.bits * j) & ((1 << m.bits) - 1));
    const float value = (s.min + __fmul_rn(s.unit, level)) * s.grow;
    y[i] = from_float<T>(value > largest<Stored<T>> ? largest<Stored<T>> : value);
  });
}

}  // namespace

void CudaBackend::quantize(In x, Quantizer how, RandomKey key, Out bytes) {
  const Layout m{x.numel(), how.bucket, how.bits};
  dispatch(x, [&]<class T>() {
    Byte* to = bytes.data<std::uint8_t>();
    run(levels_kernel<T>, {static_cast<unsigned>(m.buckets()), row_threads(how.bucket)}, m, x, to);
    run_each<pack_group<T>>(m.groups(), m, x, how.stochastic, key, to);
    // Clear the rest of the last level's word.
    const std::int64_t end = m.packed<T>() + m.packed_bytes();
    set_bytes(to + end, 0, bytes.numel() - end);
  });
}

void CudaBackend::dequantize(In bytes, Quantizer how, Out y) {
  const Layout m{y.numel(), how.bucket, how.bits};
  dispatch(y, [&]<class T>() { run_each<unpack_group<T>>(m.groups(), m, bytes, y); });
}

}  // namespace plangrad::cuda
