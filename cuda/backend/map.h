// How kernels find their elements. map: y[i] = f(x[i]...), the form of most element-wise kernels;
// Walk: the places of elements in broadcast tensors (autograd/shape.h), and SegmentTable: runs of
// elements that one launch works on, as kernels' parameters, of which all may have 4 KiB.
// Not here: the functions (elementwise.cu), the work on segments (optimizer.cu, reduce.cu).
// Chapters 01, broadcasting, and 03; CUDA C++ Programming Guide, function parameters.
#pragma once

#include "autograd/shape.h"
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

template <class T, int N, class F, class... X>
__device__ Pack<T, N> apply(F f, const Pack<X, N>&... x) {
  return pack<T, N>([&]([[maybe_unused]] int i) { return f(to_float(x.at[i])...); });
}

/// Computes N neighbours, or the rest at the end.
template <int N, class F, class T, class... X>
__device__ void map_pack(std::int64_t number, std::int64_t count, F f, T* y, const X*... x) {
  const std::int64_t start = number * N;
  if (start + N <= count)
    store(y + start, apply<T, N>(f, load<Pack<X, N>>(x + start)...));
  else
    for (std::int64_t i = start; i < count; ++i) y[i] = from_float<T>(f(to_float(x[i])...));
}

template <int N, class F, class T, class... X>
void run_map(const CudaBackend& backend, std::int64_t count, F f, T* y, const X*... x) {
  backend.run_each<map_pack<N, F, T, X...>>(blocks_for(count, N), count, f, y, x...);
}

/// y[i] = f(x[i]...), computed in f32; f is a structure with an operator() for devices. Takes 16
/// bytes of the widest type at a time if all addresses are aligned.
template <class T, class F, class... X>
void map(const CudaBackend& backend, const Tensor& y, F f, const X*... x) {
  constexpr int n = std::min({pack_size<T>, pack_size<X>...});
  T* to = y.data<T>();
  if (aligned<n>(to) && (aligned<n>(x) && ...))
    run_map<n>(backend, y.numel(), f, to, x...);
  else
    run_map<1>(backend, y.numel(), f, to, x...);
}

/// The largest number of dimensions for which a kernel computes places.
constexpr int most_dimensions = 8;

struct Walk {
  std::int64_t rank = 0;  // as wide as a step's numbers: bytes between members have no values
  WalkStep steps[most_dimensions] = {};

  /// throws: Error if there are too many dimensions
  Walk(const std::vector<WalkStep>& walk, const char* purpose, const Shape& shape)
      : rank(static_cast<std::int64_t>(walk.size())) {
    PG_CHECK(rank <= most_dimensions, "cuda: expected at most ", most_dimensions, " dimensions to ",
             purpose, ", got ", shape);
    std::copy(walk.begin(), walk.end(), steps);
  }
  /// Walks over y, to which a and b broadcast.
  Walk(const Tensor& a, const Tensor& b, const Tensor& y)
      : Walk(walk_over(y.shape(), a.shape(), b.shape()), "broadcast over", y.shape()) {}

  /// Whether a has y's order, and b is a row that is repeated.
  bool repeats_b() const {
    return rank == 2 && steps[0].b == 0 && steps[0].a == steps[1].size && steps[1].a == 1 &&
           steps[1].b == 1;
  }
  __device__ WalkPlace place(std::int64_t i) const {
    return place_of(steps, static_cast<int>(rank), i);
  }
};

/// A kernel's parameter that tells a block its segment: segment s has the blocks from
/// first_block[s] to that of the next one.
template <class Segment>
struct SegmentTable {
  static constexpr int most = 3840 / (sizeof(Segment) + sizeof(unsigned));

  int count = 0;
  unsigned blocks = 0;
  unsigned first_block[most];
  Segment at[most];

  /// The last segment that begins at this block or before it.
  __device__ int segment_of(unsigned block) const {
    int found = 0;
    for (int end = count; end - found > 1;) {
      const int middle = (found + end) / 2;
      (first_block[middle] <= block ? found : end) = middle;
    }
    return found;
  }
};

/// Calls launch(table) for tables that hold all segments in their order, as few as can be; segment
/// s has blocks_of(s) blocks.
template <class Segment, class BlocksOf, class Launch>
void for_tables(const std::vector<Segment>& segments, BlocksOf blocks_of, Launch launch) {
  for (auto next = segments.begin(); next != segments.end();) {
    SegmentTable<Segment> table;
    // Graphs compare all its bytes, also those past the last segment and between members.
    std::memset(static_cast<void*>(&table), 0, sizeof table);
    for (; next != segments.end() && table.count < table.most; ++next) {
      table.first_block[table.count] = table.blocks;
      table.at[table.count++] = *next;
      table.blocks += blocks_of(*next);
    }
    launch(table);
  }
}

}  // namespace plangrad::cuda
