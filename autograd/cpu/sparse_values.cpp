// The largest elements of a tensor: finds their magnitude, writes them to a message with their
// indices, and scatters them among zeros again.
// Not here: how many elements a message holds, and when a threshold is set (parallel/codecs).
// Chapter 10.
#include "autograd/cpu/parallel.h"
#include "autograd/formulas.h"

namespace plangrad::autograd {
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

/// Indices of the elements with large keys, in order, and whether all elements are finite.
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
      chosen += key >= least;  // a branch here would be unpredictable
    }
    found.index.insert(found.index.end(), index, index + chosen);
    found.finite &= largest < infinity_key;
  }
  return found;
}

/// Finds the elements of [first, last) whose keys are at least `least`, in several threads.
template <class T>
std::vector<Found> find_in_pieces(const T* x, std::int64_t first, std::int64_t last, Key least) {
  constexpr std::int64_t piece = 4 * cpu::element_grain;
  std::vector<Found> found((last - first + piece - 1) / piece);
  cpu::parallel_each(static_cast<std::int64_t>(found.size()), piece, [&](std::int64_t i) {
    found[i] = find_from(x, first + i * piece, std::min(last, first + (i + 1) * piece), least);
  });
  return found;
}

/// The slots of a message: the indices of elements, -1 where a slot is empty; then their values.
template <class T>
struct Slots {
  std::byte *indices, *values;
  std::int64_t count;

  explicit Slots(const Tensor& bytes)
      : indices(bytes.raw()), count(bytes.numel() / static_cast<std::int64_t>(4 + sizeof(T))) {
    values = indices + 4 * count;
  }
  void write(std::int64_t slot, std::int32_t index, T value) {
    write_item(indices, slot, index);
    write_item(values, slot, value);
  }
  /// Calls body(slot, index) for each slot.
  /// throws: Error if an index is outside a tensor of `elements`, or comes twice
  template <class Body>
  void for_each(const char* what, std::int64_t elements, Body&& body) const {
    if (cpu::without_values) return;
    std::vector<bool> seen(elements);
    for (std::int64_t slot = 0; slot < count; ++slot) {
      auto index = read_item<std::int32_t>(indices, slot);
      PG_CHECK(index < elements, "a sparse message has a ", what, " for element ", index, " of ",
               elements, "; both ends must have the same codec and layers");
      PG_CHECK(index < 0 || !seen[index], "a sparse message has two ", what, "s for element ",
               index, ", so it is damaged");
      if (index >= 0) seen[index] = true;
      body(slot, index);
    }
  }
};

template <class T>
Selected select_values(const T* x, std::int64_t count, Selection which, const Tensor& bytes) {
  Key least = key_of(static_cast<float>(which.threshold));
  Slots<T> slots(bytes);
  std::int64_t filled = 0;
  Selected result;
  auto take = [&](std::int64_t first, std::int64_t last) {
    for (const Found& found : find_in_pieces(x, first, last, least)) {
      result.finite &= found.finite;
      for (std::int32_t i : found.index) {
        if (key_of(x[i]) == least && which.equal-- <= 0) continue;
        if (filled < slots.count)
          slots.write(filled++, i, x[i]);
        else if (result.left < 0)
          result.left = i;
      }
    }
  };
  take(which.first, count);
  take(0, which.first);
  while (filled < slots.count) slots.write(filled++, -1, T(0.0f));
  return result;
}

}  // namespace

Magnitude CpuBackend::magnitude(In x, std::int64_t k) {
  return dispatch_encoded(x.dtype(), [&]<class T>() {
    return find_magnitude(
        k, [&](KeyDigit digit) { return count_keys(x.data<T>(), x.numel(), digit); });
  });
}

Selected CpuBackend::select(In x, Selection which, Out bytes) {
  return dispatch_encoded(
      x.dtype(), [&]<class T>() { return select_values(x.data<T>(), x.numel(), which, bytes); });
}

void CpuBackend::collect(In x, Out bytes) {
  dispatch_encoded(x.dtype(), [&]<class T>() {
    Slots<T> slots(bytes);
    slots.for_each("slot", x.numel(), [&](std::int64_t slot, std::int32_t index) {
      write_item(slots.values, slot, index < 0 ? T(0.0f) : x.data<T>()[index]);
    });
  });
}

void CpuBackend::scatter(In bytes, Out y) {
  fill(0, y);
  dispatch_encoded(y.dtype(), [&]<class T>() {
    Slots<T> slots(bytes);
    slots.for_each("value", y.numel(), [&, out = y.data<T>()](std::int64_t slot, int index) {
      if (index >= 0) out[index] = read_item<T>(slots.values, slot);
    });
  });
}

}  // namespace plangrad::autograd
