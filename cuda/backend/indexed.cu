// Kernels that move elements: permutations, elements by index, and rows of a table by id, whose
// backward adds up the rows of each id. It sorts the ids first, so that the rows of an id are
// neighbours, and then adds parts of equal length, however many ids a part has.
// Not here: the largest elements of a tensor, with their indices (largest.cu).
// Chapters 02, 03 and 11; Singh and Bhatele 2023 (SAMO) for gather and expand; Satish, Harris and
// Garland 2009, "Designing efficient sorting algorithms for manycore GPUs"; Sengupta et al. 2007,
// "Scan primitives for GPU computing" (segmented sums).
#include "cuda/backend/map.h"

namespace plangrad::cuda {
namespace {

template <class Word>
__device__ void permute_word(std::int64_t i, const Walk& walk, const Word* x, Word* y) {
  y[i] = x[walk.place(i).a];
}

template <class From, class To>
__device__ void gather_one(std::int64_t i, const From* x, std::int64_t size, const int* index,
                           bool add, To* y, IndexFault* fault) {
  if (!inside(index[i], size, IndexUse::gather, fault)) return;
  const float value = to_float(x[index[i]]);
  y[i] = from_float<To>(add ? to_float(y[i]) + value : value);
}

template <class T>
__device__ void expand_one(std::int64_t i, const T* x, const int* index, T* y, std::int64_t size,
                           IndexFault* fault) {
  if (inside(index[i], size, IndexUse::expand, fault)) y[index[i]] = x[i];
}

void check_count(const char* kernel, const Tensor& index, std::int64_t listed) {
  PG_CHECK(index.numel() == listed, kernel, ": there are ", index.numel(), " indices for ", listed,
           " elements");
}

}  // namespace

void CudaBackend::permute(In x, const std::vector<int>& order, Out y) {
  refuse_f64(x);
  const int rank = y.shape().rank();
  std::vector<WalkStep> steps;
  for (int i = 0; i < rank; ++i)
    steps.push_back({y.size(i), x.shape().product(x.shape().axis(order[i]) + 1, rank), 0});
  Walk walk(steps, "permute", x.shape());
  // Move whole words if the last dimension stays the last one.
  const std::int64_t size = size_of(x.dtype());
  const bool runs = rank > 0 && walk.steps[rank - 1].a == 1;
  dispatch_words(
      [&]<class Word>() {
        const std::int64_t elements = sizeof(Word) / size;
        if (runs) walk.steps[rank - 1].size /= elements;
        for (int i = 0; i + 1 < rank; ++i) walk.steps[i].a /= elements;
        run_each<permute_word<Word>>(x.numel() / elements, walk, x.raw(), y.raw());
      },
      runs ? address_of(x.raw()) | address_of(y.raw()) | walk.steps[rank - 1].size * size : size);
}

void CudaBackend::gather(In x, In index, bool add, Out y) {
  check_count("gather", index, y.numel());
  dispatch(x, [&]<class From>() {
    dispatch(y, [&]<class To>() {
      run_each<gather_one<From, To>>(y.numel(), x, x.numel(), index, add, y, fault_);
    });
  });
}

void CudaBackend::expand(In x, In index, Out y) {
  check_count("expand", index, x.numel());
  fill(0, y);
  dispatch(y,
           [&]<class T>() { run_each<expand_one<T>>(x.numel(), x, index, y, y.numel(), fault_); });
}

namespace {

/// Rows of `width` words.
template <class Word>
__device__ void embed_word(std::int64_t i, std::int64_t width, const Word* table, const int* ids,
                           std::int64_t limit, Word* y, IndexFault* fault) {
  const int id = ids[i / width];
  if (inside(id, limit, IndexUse::embedding, fault)) y[i] = table[id * width + i % width];
}

/// An id, and the row of that id; a row of -1 adds nothing.
struct alignas(8) RowOfId {
  int id, row;
};

constexpr int sort_threads = 1024, sort_warps = sort_threads / 32;
constexpr int digit_bits = 8, digits = 1 << digit_bits;

/// The lanes whose digits equal this lane's, among those that have one.
__device__ inline unsigned lanes_of_digit(int digit, bool has_one) {
  unsigned lanes = __ballot_sync(~0u, has_one);
  for (int bit = 0; bit < digit_bits; ++bit) {
    const unsigned ones = __ballot_sync(~0u, digit >> bit & 1);
    lanes &= digit >> bit & 1 ? ones : ~ones;
  }
  return lanes;
}

/// Replaces each count by the sum of the counts before it: counts of digit 0 in all warps, of digit
/// 1, and so on.
__device__ inline void sum_counts(int* counts) {
  constexpr int own = digits * sort_warps / sort_threads;
  int* mine = counts + threadIdx.x * own;
  int sum = 0, total;
  for (int i = 0; i < own; ++i) sum += mine[i];
  sum = block_sum_before(sum, total);
  for (int i = 0; i < own; ++i) {
    const int count = mine[i];
    mine[i] = sum;
    sum += count;
  }
}

/// One pass of a radix sort by a block: moves `from` to `to`, in the order of the digit at `shift`,
/// and in their own order where digits are equal. Each warp has a run of neighbours: it counts its
/// digits, and then knows where its first row of each digit goes.
__global__ void __launch_bounds__(sort_threads)
    sort_kernel(int count, int shift, const RowOfId* from, RowOfId* to) {
  __shared__ int places[digits * sort_warps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < digits * sort_warps; i += sort_threads) places[i] = 0;
  __syncthreads();
  const int run = (count + sort_threads - 1) / sort_threads * 32;  // whole warps of rows
  const int first = min(warp * run, count), end = min(first + run, count);
  for (int round = 0; round < 2; ++round) {  // counts, then moves
    for (int start = first; start < end; start += 32) {
      const bool has_row = start + lane < end;
      const RowOfId row = has_row ? from[start + lane] : RowOfId{0, 0};
      const int digit = row.id >> shift & (digits - 1);
      const unsigned equal = lanes_of_digit(digit, has_row);
      const int before = __popc(equal & ((1u << lane) - 1));
      int* place = places + digit * sort_warps + warp;
      if (round == 1 && has_row) to[*place + before] = row;
      __syncwarp();
      if (has_row && before == 0) *place += __popc(equal);
      __syncwarp();
    }
    __syncthreads();
    if (round == 0) sum_counts(places);
    __syncthreads();
  }
}

/// Ids outside the table, which the forward pass has recorded, become `limit` and end up last.
__device__ void number_row(std::int64_t i, const int* ids, std::int64_t limit, RowOfId* rows) {
  const bool known = ids[i] >= 0 && ids[i] < limit;
  rows[i] = {known ? ids[i] : static_cast<int>(limit), static_cast<int>(known ? i : -1)};
}

constexpr int part_rows = 32;

/// Adds part p of the sorted rows, in order, by a warp for 32 N columns. An id whose rows are all
/// here has its sum in the table now. The sums of the first id, if its rows begin before the part,
/// and of the last one, if they go on after it, are rows 2 p and 2 p + 1 of the next sorted rows.
template <int N, class T>
__device__ void sum_part(std::int64_t warp, std::int64_t parts, std::int64_t count,
                         std::int64_t width, const RowOfId* rows, const T* dy, std::int64_t limit,
                         float* dtable, RowOfId* next_rows, float* next_dy) {
  const std::int64_t part = warp % parts, start = part * part_rows;
  const int lane = threadIdx.x % 32, none = static_cast<int>(limit);
  const std::int64_t column = (warp / parts * 32 + lane) * N;
  const RowOfId mine = start + lane < count ? rows[start + lane] : RowOfId{none, -1};
  const int before = start > 0 ? rows[start - 1].id : -1;
  const int after = start + part_rows < count ? rows[start + part_rows].id : -1;
  const int first = __shfl_sync(~0u, mine.id, 0), last = __shfl_sync(~0u, mine.id, part_rows - 1);
  const bool begun = first == before && first < none, goes_on = last == after && last < none;
  float sum[N] = {};
  for (int i = 0; i < part_rows; ++i) {
    const int id = __shfl_sync(~0u, mine.id, i), row = __shfl_sync(~0u, mine.row, i);
    const int next = __shfl_sync(~0u, mine.id, (i + 1) % 32);
    if (id == none || column >= width) continue;
    if (row >= 0) {
      const auto d = load<Pack<T, N>>(dy + row * width + column);
      for (int j = 0; j < N; ++j) sum[j] += to_float(d.at[j]);
    }
    if (i + 1 < part_rows && next == id) continue;
    float* to = begun && id == first            ? next_dy + 2 * part * width
                : goes_on && i + 1 == part_rows ? next_dy + (2 * part + 1) * width
                                                : dtable + id * width;
    constexpr int n = N < 4 ? N : 4;
    for (int j = 0; j < N; j += n)
      store(to + column + j, pack<float, n>([&](int k) { return sum[j + k]; }));
    for (int j = 0; j < N; ++j) sum[j] = 0;
  }
  if (warp >= parts || lane > 0) return;
  // An id that fills the part and goes on has one sum; the second row keeps its rows together.
  const bool both = begun && goes_on && first == last;
  const int at = static_cast<int>(2 * part);
  next_rows[at] = begun ? RowOfId{first, at} : RowOfId{none, -1};
  next_rows[at + 1] = goes_on ? RowOfId{last, both ? -1 : at + 1} : RowOfId{none, -1};
}

}  // namespace

void CudaBackend::embedding(In table, In ids, Out y) {
  refuse_f64(table);
  const std::int64_t bytes = table.size(1) * size_of(table.dtype());
  dispatch_words(
      [&]<class Word>() {
        const std::int64_t width = bytes / sizeof(Word);
        run_each<embed_word<Word>>(ids.numel() * width, width, table.raw(), ids, table.size(0),
                                   y.raw(), fault_);
      },
      address_of(table.raw()), address_of(y.raw()), bytes);
}

void CudaBackend::embedding_backward(In ids, In dy, Out dtable) {
  fill(0, dtable);
  const std::int64_t limit = dtable.size(0), width = dtable.size(1);
  std::int64_t count = ids.numel();
  auto list = [&](std::int64_t rows) { return workspace({rows, 2}, DType::i32, ids.device()); };
  Tensor rows = list(count), sorted = list(count), from = dy;
  run_each<number_row>(count, ids, limit, rows.raw());
  for (int shift = 0; limit >> shift > 0; shift += digit_bits) {
    run(sort_kernel, {1, sort_threads}, count, shift, rows.raw(), sorted.raw());
    std::swap(rows, sorted);
  }
  // Add the rows of each part, then the sums that parts left, until one part has all of them.
  for (std::int64_t parts = 2; parts > 1;) {
    parts = blocks_for(count, part_rows);
    const Tensor next_rows = list(2 * parts);
    const Tensor next = workspace({2 * parts, width}, DType::f32, ids.device());
    dispatch_packs(width, {from, dtable}, [&]<class T, int N>() {
      run_each<sum_part<N, T>, 32>(parts * blocks_for(width, 32 * N), parts, count, width,
                                   rows.raw(), from, limit, dtable, next_rows.raw(), next);
    });
    rows = next_rows, from = next, count = 2 * parts;
  }
}

}  // namespace plangrad::cuda
