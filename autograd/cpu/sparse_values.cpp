// The largest elements of a tensor: finding how large they are, writing them to a message with
// their indices, and putting them back among zeros.
// Not here: which message holds how many, and when a threshold is set (parallel/codecs).
// Chapter 10.
#include <array>
#include <mutex>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/encoded.h"
#include "autograd/cpu/parallel.h"
#include "autograd/magnitude.h"

namespace paragrad::autograd {

namespace {

using Key = MagnitudeKey;
using Histogram = std::array<std::int64_t, digit_values>;

template <class T>
Histogram count_keys(const T* x, std::int64_t count, KeyDigit digit) {
  Histogram total{};
  std::mutex mutex;
  cpu::parallel_for(count, 4 * cpu::element_grain, [&](std::int64_t first, std::int64_t last) {
    Histogram mine{};
    for (std::int64_t i = first; i < last; ++i) {
      Key key = key_of(x[i]);
      if (digit.matches(key)) ++mine[digit.of(key)];
    }
    std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < mine.size(); ++i) total[i] += mine[i];
  });
  return total;
}

/// Elements whose keys are `least` or more, in order.
struct Found {
  std::vector<std::int32_t> index;
  bool finite = true;
};

template <class T>
Found find_from(const T* x, std::int64_t first, std::int64_t last, Key least) {
  Found found;
  std::int32_t index[4096];
  for (std::int64_t begin = first; begin < last; begin += std::size(index)) {
    std::int64_t end = std::min<std::int64_t>(last, begin + std::size(index)), chosen = 0;
    Key largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      Key key = key_of(x[i]);
      largest = std::max(largest, key);
      index[chosen] = static_cast<std::int32_t>(i);
      chosen += key >= least;  // without a branch, as nobody can predict it
    }
    found.index.insert(found.index.end(), index, index + chosen);
    found.finite &= largest < infinity_key;
  }
  return found;
}

/// The same of [first, last), in pieces that several threads search.
template <class T>
std::vector<Found> find_in_pieces(const T* x, std::int64_t first, std::int64_t last, Key least) {
  constexpr std::int64_t piece = 4 * cpu::element_grain;
  std::vector<Found> found((last - first + piece - 1) / piece);
  cpu::parallel_each(static_cast<std::int64_t>(found.size()), piece, [&](std::int64_t i) {
    found[i] = find_from(x, first + i * piece, std::min(last, first + (i + 1) * piece), least);
  });
  return found;
}

/// Writes a message element by element: all indices, then all values.
template <class T>
struct Slots {
  std::byte* bytes;
  std::int64_t count, filled = 0;

  void write(std::int32_t index, T value) {
    cpu::write(bytes, filled, index);
    cpu::write(bytes + count * sizeof index, filled, value);
    ++filled;
  }
};

template <class T>
Selected select_values(const T* x, std::int64_t count, Selection which, const Tensor& bytes) {
  Key least = key_of(static_cast<float>(which.threshold));
  Slots<T> slots{bytes.raw(), bytes.numel() / static_cast<std::int64_t>(4 + sizeof(T))};
  Selected result;
  auto take = [&](std::int64_t first, std::int64_t last) {
    for (const Found& found : find_in_pieces(x, first, last, least)) {
      result.finite &= found.finite;
      for (std::int32_t i : found.index) {
        if (key_of(x[i]) == least && which.equal-- <= 0) continue;
        if (slots.filled < slots.count)
          slots.write(i, x[i]);
        else if (result.left < 0)
          result.left = i;
      }
    }
  };
  take(which.first, count);
  take(0, which.first);
  while (slots.filled < slots.count) slots.write(-1, T(0.0f));
  return result;
}

}  // namespace

Magnitude CpuBackend::magnitude(In x, std::int64_t k) {
  Magnitude result;
  cpu::dispatch_encoded(x.dtype(), [&]<class T>() {
    result = find_magnitude(
        k, [&](KeyDigit digit) { return count_keys(x.data<T>(), x.numel(), digit); });
  });
  return result;
}

Selected CpuBackend::select(In x, Selection which, Out bytes) {
  Selected result;
  cpu::dispatch_encoded(
      x.dtype(), [&]<class T>() { result = select_values(x.data<T>(), x.numel(), which, bytes); });
  return result;
}

void CpuBackend::collect(In x, Out bytes) {
  cpu::dispatch_encoded(x.dtype(), [&]<class T>() {
    std::int64_t slots = bytes.numel() / static_cast<std::int64_t>(4 + sizeof(T));
    std::byte* values = bytes.raw() + slots * sizeof(std::int32_t);
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      auto index = cpu::read<std::int32_t>(bytes.raw(), slot);
      PG_CHECK(index < x.numel(), "a sparse message has a slot for element ", index, " of ",
               x.numel(), "; both ends must have the same codec and layers");
      cpu::write(values, slot, index < 0 ? T(0.0f) : x.data<T>()[index]);
    }
  });
}

void CpuBackend::scatter(In bytes, Out y) {
  fill(0, y);
  cpu::dispatch_encoded(y.dtype(), [&]<class T>() {
    std::int64_t slots = bytes.numel() / static_cast<std::int64_t>(4 + sizeof(T));
    const std::byte* values = bytes.raw() + slots * sizeof(std::int32_t);
    T* out = y.data<T>();
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      auto index = cpu::read<std::int32_t>(bytes.raw(), slot);
      PG_CHECK(index < y.numel(), "a sparse message has a value for element ", index, " of ",
               y.numel(), "; both ends must have the same codec and layers");
      if (index >= 0) out[index] = cpu::read<T>(values, slot);
    }
  });
}

}  // namespace paragrad::autograd
