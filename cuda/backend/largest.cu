// The largest elements of a tensor: finds the k-th magnitude by counting (autograd/formulas.h),
// writes elements to a message with their indices, and scatters them among zeros again. Their order
// is the CPU's: each thread counts its own elements, and adds the counts of earlier threads.
// Not here: how many elements a message holds (parallel/codecs). Chapter 10; Alabi et al. 2012,
// "Fast k-selection algorithms for graphics processing units".
#include "autograd/formulas.h"
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {
namespace {

using Byte = std::uint8_t;
using Key = MagnitudeKey;

constexpr int own = 16, piece = own * item_threads;  // elements per thread and per block

template <class T>
__global__ void __launch_bounds__(item_threads)
    count_keys_kernel(std::int64_t count, const T* x, KeyDigit digit, unsigned* histogram) {
  __shared__ unsigned mine[digit_values];
  for (int i = threadIdx.x; i < digit_values; i += item_threads) mine[i] = 0;
  __syncthreads();
  const std::int64_t first = std::int64_t{blockIdx.x} * piece + threadIdx.x;
  for (std::int64_t i = first; i < min(first + piece, count); i += item_threads) {
    const Key key = key_of(to_float(x[i]));
    if (digit.matches(key)) atomicAdd(&mine[digit.of(key)], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < digit_values; i += item_threads)
    if (mine[i] > 0) atomicAdd(&histogram[i], mine[i]);
}

/// The elements in order from `first` to the end and on from 0. Those above `least` are chosen, and
/// the first `equal` elements of its size.
template <class T>
struct Choice {
  const T* x;
  std::int64_t count, first;
  Key least;
  unsigned equal;

  __device__ std::int64_t index(std::int64_t i) const {
    return first + i < count ? first + i : first + i - count;
  }
};

/// Numbers of elements above `least` (upper half) and of its size (lower half).
using Counts = unsigned long long;
constexpr Counts one_above = Counts{1} << 32, one_equal = 1;

/// Calls body(index, key) for each of this thread's elements in order.
template <class T, class Body>
__device__ void for_own(const Choice<T>& c, Body body) {
  const std::int64_t start = std::int64_t{blockIdx.x} * piece + threadIdx.x * own;
  for (std::int64_t i = start; i < min(start + own, c.count); ++i)
    body(c.index(i), key_of(to_float(c.x[c.index(i)])));
}

template <class T>
__device__ Counts count_own(const Choice<T>& c) {
  Counts counts = 0;
  for_own(c, [&](std::int64_t, Key key) {
    if (key >= c.least) counts += key > c.least ? one_above : one_equal;
  });
  return counts;
}

template <class T>
__global__ void __launch_bounds__(item_threads)
    count_chosen_kernel(Choice<T> c, Counts* counts, int* not_finite) {
  for_own(c, [&](std::int64_t, Key key) {
    if (key >= infinity_key) atomicOr(not_finite, 1);
  });
  Counts total;
  block_sum_before(count_own(c), total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/// Replaces each count by the sum of the counts before it, in one block.
__global__ void __launch_bounds__(item_threads) sums_before_kernel(int size, Counts* counts) {
  Counts so_far = 0, total;
  for (int start = 0; start < size; start += item_threads) {
    const int i = start + threadIdx.x;
    const Counts before = so_far + block_sum_before(i < size ? counts[i] : Counts{0}, total);
    if (i < size) counts[i] = before;
    so_far += total;
  }
}

/// Writes chosen element n to slot n; `left` receives the first chosen element without a slot.
template <class T>
__global__ void __launch_bounds__(item_threads)
    write_chosen_kernel(Choice<T> c, const Counts* counts, std::int64_t slots, Byte* bytes,
                        int* left) {
  Counts total, before = counts[blockIdx.x] + block_sum_before(count_own(c), total);
  for_own(c, [&](std::int64_t i, Key key) {
    if (key < c.least) return;
    const auto above = static_cast<unsigned>(before >> 32), equal = static_cast<unsigned>(before);
    before += key > c.least ? one_above : one_equal;
    if (key == c.least && equal >= c.equal) return;
    const std::int64_t slot = std::int64_t{above} + min(equal, c.equal);
    if (slot < slots) {
      write_item(bytes, slot, static_cast<int>(i));
      write_item(bytes + slots * sizeof(int), slot, c.x[i]);
    } else if (slot == slots) {
      *left = static_cast<int>(i);
    }
  });
}

template <class T>
__device__ void collect_one(std::int64_t slot, std::int64_t slots, const T* x, std::int64_t size,
                            Byte* bytes, IndexFault* fault) {
  const int i = read_item<int>(bytes, slot);
  if (i >= 0 && !inside(i, size, IndexUse::collect, fault)) return;
  write_item(bytes + slots * sizeof(int), slot, i < 0 ? from_float<T>(0) : x[i]);
}

template <class T>
__device__ void scatter_one(std::int64_t slot, std::int64_t slots, const Byte* bytes, T* y,
                            std::int64_t size, IndexFault* fault) {
  const int i = read_item<int>(bytes, slot);
  if (i >= 0 && inside(i, size, IndexUse::scatter, fault))
    y[i] = read_item<T>(bytes + slots * sizeof(int), slot);
}

/// The number of slots in a message for values of x's type.
std::int64_t slots_of(const Tensor& bytes, const Tensor& x) {
  return bytes.numel() / (static_cast<std::int64_t>(sizeof(int)) + size_of(x.dtype()));
}

}  // namespace

// The host searches for each digit, because it needs the result.
Magnitude CudaBackend::magnitude(In x, std::int64_t k) {
  const Tensor histogram = workspace({digit_values}, DType::i32, x.device());
  std::vector<unsigned> counted(digit_values);
  return find_magnitude(k, [&](KeyDigit digit) {
    fill(0, histogram);
    dispatch(x, [&]<class T>() {
      run(count_keys_kernel<T>, {blocks_for(x.numel(), piece), item_threads}, x.numel(), x, digit,
          reinterpret_cast<unsigned*>(histogram.data<std::int32_t>()));
    });
    read(histogram.raw(), counted.data(), histogram.bytes());
    return counted;
  });
}

Selected CudaBackend::select(In x, Selection which, Out bytes) {
  const std::int64_t slots = slots_of(bytes, x), size = x.numel();
  const unsigned pieces = blocks_for(size, piece);
  const Tensor counts = workspace({pieces, sizeof(Counts)}, DType::u8, x.device());
  const Tensor results = workspace({2}, DType::i32, x.device());
  int *left = results.data<std::int32_t>(), *not_finite = left + 1;
  auto* before = reinterpret_cast<Counts*>(counts.raw());
  Byte* to = bytes.data<std::uint8_t>();
  use();
  // Make all slots empty: index -1, value 0. An index of bytes 0xff is -1.
  set_bytes(to, 0xff, slots * sizeof(int));
  set_bytes(to + slots * sizeof(int), 0, slots * size_of(x.dtype()));
  set_bytes(left, 0xff, sizeof(int));
  set_bytes(not_finite, 0, sizeof(int));
  const auto least = key_of(static_cast<float>(which.threshold));
  const auto equal = static_cast<unsigned>(std::clamp<std::int64_t>(which.equal, 0, size));
  dispatch(x, [&]<class T>() {
    const Choice<T> choice{x.data<T>(), size, which.first, least, equal};
    run(count_chosen_kernel<T>, {pieces, item_threads}, choice, before, not_finite);
    run(sums_before_kernel, {1, item_threads}, pieces, before);
    run(write_chosen_kernel<T>, {pieces, item_threads}, choice, before, slots, to, left);
  });
  int found[2];
  read(results.raw(), found, sizeof found);
  return {found[1] == 0, found[0]};
}

void CudaBackend::collect(In x, Out bytes) {
  const std::int64_t slots = slots_of(bytes, x);
  dispatch(x,
           [&]<class T>() { run_each<collect_one<T>>(slots, slots, x, x.numel(), bytes, fault_); });
}

void CudaBackend::scatter(In bytes, Out y) {
  const std::int64_t slots = slots_of(bytes, y);
  fill(0, y);
  dispatch(y,
           [&]<class T>() { run_each<scatter_one<T>>(slots, slots, bytes, y, y.numel(), fault_); });
}

}  // namespace plangrad::cuda
