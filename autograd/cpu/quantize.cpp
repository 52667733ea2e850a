// Max-min quantization of buckets, to the bytes of a message and back, one strip at a time: its
// values stay in the first-level cache from the search for extremes to the packing of their levels,
// 8 at a time: 8 numbers of b bits take b bytes, the first number in the lowest bits.
// Not here: the use of quantized values in compressed sums (parallel/codecs).
// Chapter 10; Markov et al. 2022, "CGX".
#include "autograd/cpu/parallel.h"
#include "autograd/cpu/vector_math.h"
#include "autograd/formulas.h"

namespace plangrad::autograd {
namespace {

/// A mask of the lowest `used` bits in every lane of `lane` bits of a word.
constexpr std::uint64_t low_bits(int lane, int used) {
  std::uint64_t one = used == 64 ? ~0ull : (1ull << used) - 1, all = 0;
  for (int at = 0; at < 64; at += lane) all |= one << at;
  return all;
}

// [snippet join]
/// Joins pairs of lanes that hold `used` bits each: moves the upper lane down beside the lower one.
template <int lane, int used>
constexpr std::uint64_t join_lanes(std::uint64_t word) {
  constexpr std::uint64_t low = low_bits(2 * lane, used);
  return (word & low) | ((word >> (lane - used)) & (low << used));
}
// [end snippet]

/// Splits each pair of lanes again: the inverse of join_lanes.
template <int lane, int used>
constexpr std::uint64_t part_lanes(std::uint64_t word) {
  constexpr std::uint64_t low = low_bits(2 * lane, used);
  return (word & low) | ((word & (low << used)) << (lane - used));
}

// [snippet join_bytes]
/// Packs 8 numbers of b bits, one in each byte, into the lowest b bytes.
template <int b>
constexpr std::uint64_t join_bytes(std::uint64_t word) {
  return join_lanes<32, 4 * b>(join_lanes<16, 2 * b>(join_lanes<8, b>(word)));
}
// [end snippet]
/// Unpacks 8 numbers of b bits to one in each byte: the inverse of join_bytes.
template <int b>
constexpr std::uint64_t part_bytes(std::uint64_t word) {
  return part_lanes<8, b>(part_lanes<16, 2 * b>(part_lanes<32, 4 * b>(word)));
}

// One loop works on whole words, and the compiler vectorises it. The other one moves 8 bytes, of
// which b count, so that the last word needs 8 bytes of room.
template <int b>
void pack_words(std::uint64_t* words, std::int64_t groups, std::byte* packed) {
  for (std::int64_t i = 0; i < groups; ++i) words[i] = join_bytes<b>(words[i]);
  for (std::int64_t i = 0; i < groups; ++i) std::memcpy(packed + b * i, words + i, 8);
}
template <int b>
void unpack_words(const std::byte* packed, std::int64_t groups, std::uint64_t* words) {
  for (std::int64_t i = 0; i < groups; ++i) std::memcpy(words + i, packed + b * i, 8);
  for (std::int64_t i = 0; i < groups; ++i) words[i] = part_bytes<b>(words[i]);
}

/// Packs groups of 8 numbers below 2^bits, one byte each, and overwrites `words`. Writes 8 - bits
/// more bytes than the groups need.                                                  bits: 1 to 8
void pack(int bits, std::uint64_t* words, std::int64_t groups, std::byte* packed) {
  dispatch<1, 8>(bits, [=]<int b>() { pack_words<b>(words, groups, packed); });
}
/// Unpacks what pack() wrote. Reads 8 - bits more bytes than the groups need.
void unpack(int bits, const std::byte* packed, std::int64_t groups, std::uint64_t* words) {
  dispatch<1, 8>(bits, [=]<int b>() { unpack_words<b>(packed, groups, words); });
}

/// Finds the extremes. Returns whether all values are finite.
template <class T>
bool find_extremes(const T* x, std::int64_t count, float& low, float& high) {
  float least = std::numeric_limits<float>::infinity(), most = -least;
  MagnitudeKey magnitude = 0;
#pragma omp simd reduction(min : least) reduction(max : most, magnitude)
  for (std::int64_t i = 0; i < count; ++i) {
    float v = x[i];
    least = std::min(least, v);
    most = std::max(most, v);
    magnitude = std::max(magnitude, key_of(v));
  }
  low = least;
  high = most;
  return magnitude < infinity_key;
}

// [snippet levels]
/// level[i] = min(floor((x[i] - min) / unit + round(i)), steps)
template <class T, class Round>
void to_levels(const T* x, std::int64_t count, Scale s, int steps, Round round,
               std::uint8_t* level) {
  float top = static_cast<float>(steps);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    float t = (s.shrink * x[i] - s.min) * s.inverse + round(i);
    level[i] = static_cast<std::uint8_t>(static_cast<int>(t < top ? t : top));  // of NaN the top
  }
}

/// y[i] = min + unit * level[i]
template <class T>
void from_levels(const std::uint8_t* level, std::int64_t count, Scale s, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    float v = (s.min + s.unit * static_cast<float>(level[i])) * s.grow;
    y[i] = v > largest<T> ? largest<T> : v;  // NaN stays
  }
}
// [end snippet]

/// The levels of a few values, first one per byte, then packed.
struct Block {
  static constexpr std::int64_t size = 1024;
  alignas(64) std::uint64_t words[size / 8];
  alignas(64) std::byte packed[size + 8];

  std::uint8_t* levels() { return reinterpret_cast<std::uint8_t*>(words); }
};

/// The layout of a message of n values, and its strips. A strip has whole buckets, whose levels
/// fill whole bytes; levels are computed and packed one block at a time.
template <class T>
struct Message {
  std::int64_t count, bucket, bits;
  std::byte* bytes;

  std::int64_t buckets() const { return (count + bucket - 1) / bucket; }
  std::int64_t strip() const {
    std::int64_t least = std::lcm(bucket, std::int64_t{8});
    return (Block::size + least - 1) / least * least;
  }
  std::byte* packed() const { return bytes + 2 * buckets() * sizeof(T); }
  std::int64_t packed_bytes(std::int64_t values) const { return (values * bits + 7) / 8; }
  int steps() const { return (1 << bits) - 1; }
  Scale scale(std::int64_t i) const { return Scale(read_item<Levels<T>>(bytes, i)); }

  /// Calls body(first, last) for strips, in several threads.
  template <class Body>
  void for_strips(Body&& body) const {
    std::int64_t size = strip();
    cpu::parallel_each((count + size - 1) / size, size,
                       [&](std::int64_t s) { body(s * size, std::min(count, (s + 1) * size)); });
  }
  /// Calls body(i, first, last) for the part of each bucket i in [first, last).
  template <class Body>
  void for_buckets(std::int64_t first, std::int64_t last, Body&& body) const {
    for (std::int64_t i = first / bucket; first < last; ++i) {
      std::int64_t end = std::min(last, (i + 1) * bucket);
      body(i, first, end);
      first = end;
    }
  }
};

/// Writes one strip of a message.
template <class T, bool stochastic>
void encode_strip(const T* x, const Message<T>& m, std::int64_t first, std::int64_t last,
                  RandomKey key) {
  m.for_buckets(first, last, [&](std::int64_t i, std::int64_t from, std::int64_t to) {
    float low, high;
    const bool finite = find_extremes(x + from, to - from, low, high);
    write_item(m.bytes, i, finite ? levels_between<T>(low, high, m.steps()) : no_levels<T>());
  });
  Block block;
  for (std::int64_t at = first; at < last; at += block.size) {
    alignas(64) float random[stochastic ? block.size : 1];
    std::int64_t end = std::min(last, at + block.size), groups = (end - at + 7) / 8;
    if constexpr (stochastic) cpu::vector_uniform<block.size>(key, at, random);
    m.for_buckets(at, end, [&](std::int64_t i, std::int64_t from, std::int64_t to) {
      const float* r = stochastic ? random + (from - at) : random;
      auto round = [r](std::int64_t j) { return stochastic ? r[j] : 0.5f; };
      to_levels(x + from, to - from, m.scale(i), m.steps(), round, block.levels() + from - at);
    });
    std::fill(block.levels() + (end - at), block.levels() + 8 * groups, 0);
    pack(m.bits, block.words, groups, block.packed);
    std::memcpy(m.packed() + at / 8 * m.bits, block.packed, m.packed_bytes(end - at));
  }
}

/// Reads one strip of a message.
template <class T>
void decode_strip(const Message<T>& m, std::int64_t first, std::int64_t last, T* y) {
  Block block;
  for (std::int64_t at = first; at < last; at += block.size) {
    std::int64_t end = std::min(last, at + block.size), groups = (end - at + 7) / 8;
    std::memcpy(block.packed, m.packed() + at / 8 * m.bits, m.packed_bytes(end - at));
    unpack(m.bits, block.packed, groups, block.words);
    m.for_buckets(at, end, [&](std::int64_t i, std::int64_t from, std::int64_t to) {
      from_levels(block.levels() + from - at, to - from, m.scale(i), y + from);
    });
  }
}

}  // namespace

void CpuBackend::quantize(In x, Quantizer how, RandomKey key, Out bytes) {
  dispatch_encoded(x.dtype(), [&]<class T>() {
    Message<T> m{x.numel(), how.bucket, how.bits, bytes.raw()};
    const T* in = x.data<T>();
    m.for_strips([&](std::int64_t first, std::int64_t last) {
      how.stochastic ? encode_strip<T, true>(in, m, first, last, key)
                     : encode_strip<T, false>(in, m, first, last, key);
    });
    // Clear the rest of the last level's word.
    std::fill(m.packed() + m.packed_bytes(m.count), m.bytes + bytes.numel(), std::byte{0});
  });
}

void CpuBackend::dequantize(In bytes, Quantizer how, Out y) {
  dispatch_encoded(y.dtype(), [&]<class T>() {
    Message<T> m{y.numel(), how.bucket, how.bits, bytes.raw()};
    T* out = y.data<T>();
    m.for_strips([&](std::int64_t first, std::int64_t last) { decode_strip(m, first, last, out); });
  });
}

}  // namespace plangrad::autograd
