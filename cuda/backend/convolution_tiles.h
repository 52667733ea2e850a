// The two operands of a convolution's product, gathered in shared memory: a matrix in memory, and
// what windows read from images, which is never written as a matrix of patches.
// Not here: the product (convolution.cu).
// Chapter 12; Chetlur et al. 2014, "cuDNN", section 3.
#pragma once

#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

/// A block's sums, and the number of their terms that it takes at a time.
constexpr int conv_rows = 64, conv_columns = 128, conv_threads = 256;
template <class T>
constexpr int conv_depth = 64 / sizeof(T);

/// The distance of rows in shared memory: elements (f32) or packs of 16 bytes (bf16) that a warp
/// reads at once are in different banks.
template <class T>
constexpr int conv_pitch(int length) {
  return length + (sizeof(T) == 2 ? 8 : 1);
}

/// An index in three digits, the last one fastest: place (n,h,w) of a window, or tap (c,i,j) in it.
/// Digits advance by additions, as divisions take as long as many products.
struct Digits {
  int a, b, c;

  __device__ static Digits of(int i, int b_size, int c_size) {
    return {i / c_size / b_size, i / c_size % b_size, i % c_size};
  }
  __device__ void add(const Digits& step, int b_size, int c_size) {
    c += step.c, b += step.b, a += step.a;
    if (c >= c_size) c -= c_size, ++b;
    if (b >= b_size) b -= b_size, ++a;
  }
};

/// A matrix whose element (r,i) is at r pitch + i / inner outer + i % inner; with i a pixel of all
/// images, and r its channel, for example.
template <class T>
struct Strided {
  T* data;
  int rows, pitch, inner, outer;

  __device__ Digits index(int i) const { return Digits::of(i, 1, inner); }
  __device__ T* column(const Digits& i) const { return data + i.a * outer + i.c; }
};

/// What windows read. Forward, the images are x: tap (c,i,j) at place (n,h,w) of y reads
///   x[n, c, h stride - padding + i, w stride - padding + j], or 0 outside.
/// Backward, the images are dy: at place (n,h,w) of x, tap (c,i,j) reads the dy of channel c at
/// that place of y which reads this place of x at (i,j), or 0 without one.
template <class T, bool backward>
struct Windows {
  const T* images;
  int channels, height, width, place_height, place_width;
  Window window;

  /// The place in the images where a window begins; outside of them if there is no such place.
  struct Origin {
    int image, h, w;
  };
  __device__ Origin origin(const Digits& place, bool exists) const {
    const int stride = backward ? 1 : window.stride;
    const int shift = backward ? window.padding : -window.padding;
    return {place.a * channels * height * width, exists ? place.b * stride + shift : -(1 << 30),
            place.c * stride + shift};
  }
  /// `inverse` is 2^32 / stride, rounded up: exact for what ConvSizes lets pass.
  __device__ T read(const Origin& from, const Digits& tap, unsigned inverse) const {
    int h = backward ? from.h - tap.b : from.h + tap.b;
    int w = backward ? from.w - tap.c : from.w + tap.c;
    bool inside = tap.a < channels && h >= 0 && w >= 0;
    if (backward && window.stride > 1) {
      const unsigned down = __umulhi(h, inverse), across = __umulhi(w, inverse);
      inside =
          inside && down * window.stride == unsigned(h) && across * window.stride == unsigned(w);
      h = static_cast<int>(down), w = static_cast<int>(across);
    }
    inside = inside && h < height && w < width;
    return inside ? images[from.image + (tap.a * height + h) * width + w] : from_float<T>(0);
  }
};

/// This thread's elements of tiles of a matrix, of which each step takes the next ones (rows,depth)
template <class T>
struct LeftTile {
  static constexpr int depth = conv_depth<T>, apart = conv_threads / depth;
  using Memory = T[conv_rows][conv_pitch<T>(depth)];

  const Strided<const T>& from;
  const Digits step;
  Digits at;
  int next, end;
  T values[conv_rows / apart];

  __device__ LeftTile(const Strided<const T>& from, int begin, int end)
      : from(from), step(from.index(depth)), next(begin + threadIdx.x % depth), end(end) {
    at = from.index(next);
  }
  __device__ void read() {
    const T* column = from.column(at);
    PG_UNROLL
    for (int i = 0; i < conv_rows / apart; ++i) {
      const int r = blockIdx.y * conv_rows + threadIdx.x / depth + i * apart;
      values[i] = next < end && r < from.rows ? column[r * from.pitch] : from_float<T>(0);
    }
    next += depth;
    at.add(step, 1, from.inner);
  }
  __device__ void write(Memory& tile) const {
    PG_UNROLL
    for (int i = 0; i < conv_rows / apart; ++i)
      tile[threadIdx.x / depth + i * apart][threadIdx.x % depth] = values[i];
  }
};

/// This thread's elements of tiles of what windows read, for one place              (taps,places)
/// The product's columns are places, and each step takes the next taps; or the other way around, if
/// it `sums_places`. The lanes of a warp have neighbouring places, which are neighbours in memory.
template <class T, bool backward, bool sums_places>
struct RightTile {
  static constexpr int taps = sums_places ? conv_columns : conv_depth<T>;
  static constexpr int places = sums_places ? conv_depth<T> : conv_columns;
  static constexpr int apart = conv_threads / places;
  using Memory = T[taps][conv_pitch<T>(places)];

  const Windows<T, backward>& from;
  const Digits tap_step, place_step;
  const unsigned inverse_stride;
  Digits tap, place;
  int number, end;  // of the place, and of all places that the block reads
  T values[taps / apart];

  __device__ RightTile(const Windows<T, backward>& from, int tap, int place, int end)
      : from(from),
        tap_step(index_of_tap(apart)),
        place_step(index_of_place(places)),
        inverse_stride(~0u / from.window.stride + 1),
        tap(index_of_tap(tap + threadIdx.x / places)),
        number(place + threadIdx.x % places),
        end(end) {
    this->place = index_of_place(number);
  }
  __device__ Digits index_of_tap(int i) const {
    return Digits::of(i, from.window.height, from.window.width);
  }
  __device__ Digits index_of_place(int i) const {
    return Digits::of(i, from.place_height, from.place_width);
  }
  __device__ void read() {
    const auto origin = from.origin(place, number < end);
    Digits at = tap;
    PG_UNROLL
    for (int i = 0; i < taps / apart; ++i) {
      values[i] = from.read(origin, at, inverse_stride);
      at.add(tap_step, from.window.height, from.window.width);
    }
    if constexpr (sums_places) {
      number += places;
      place.add(place_step, from.place_height, from.place_width);
    } else {
      tap = at;
    }
  }
  __device__ void write(Memory& tile) const {
    PG_UNROLL
    for (int i = 0; i < taps / apart; ++i)
      tile[threadIdx.x / places + i * apart][threadIdx.x % places] = values[i];
  }
};

}  // namespace plangrad::cuda
