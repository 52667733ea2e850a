// Loops of kernels, divided among threads: those of ThreadPool, or those of OpenMP where oneDNN
// multiplies with them, because two teams of threads would take each other's cores.
// Not here: results that change with the number of threads or with the machine's vectors. Sums are
// computed in pieces of fixed size, which are then added in order. Chapter 03.
#pragma once

#include <algorithm>
#include <numeric>
#include <thread>

#include "autograd/cpu/cpu_backend.h"

/// oneDNN's products are those of processors with AVX-512 (gemm.cpp).
#if PLANGRAD_ONEDNN && defined(__AVX512F__)
#define PLANGRAD_ONEDNN_PRODUCTS 1
#else
#define PLANGRAD_ONEDNN_PRODUCTS 0
#endif
#if PLANGRAD_OPENMP && PLANGRAD_ONEDNN_PRODUCTS
#define PLANGRAD_OPENMP_LOOPS 1
#include <omp.h>
#else
#define PLANGRAD_OPENMP_LOOPS 0
#endif

namespace plangrad::autograd::cpu {

class ThreadPool {
 public:
  ~ThreadPool();

  /// The calling thread's pool; its helpers end with the thread.
  static ThreadPool& mine();
  /// Whether the calling thread is in a piece of a loop; loops inside it are not divided.
  static bool is_inside() { return inside; }
  /// The calling thread's number among the threads of its loop: 0, 1, 2, ...
  static int place() { return own_place; }

  /// Calls body(piece) for each piece in [0, pieces), in at most `threads` threads, the calling one
  /// among them. The body must not throw.
  template <class Body>
  void run(int threads, std::int64_t pieces, Body&& body) {
    loop_ = {[](void* all, std::int64_t piece) { (*static_cast<Body*>(all))(piece); }, &body,
             pieces, threads};
    run_loop();
  }

 private:
  struct Loop {
    void (*call)(void* body, std::int64_t piece) = nullptr;
    void* body = nullptr;
    std::int64_t pieces = 0;
    int threads = 0;
  };
  static constexpr std::uint32_t open = 1u << 31;

  void run_loop();
  void help(int place);
  bool join();
  void leave();
  void take_pieces();

  inline static thread_local bool inside = false;
  inline static thread_local int own_place = 0;

  Loop loop_;  // helpers read it while state_ counts them
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<std::uint32_t> state_ = 0;  // `open` while helpers may join; plus those that have
  std::atomic<std::uint32_t> loops_ = 0;  // begun so far
  std::atomic<bool> ends_ = false;
  std::vector<std::thread> helpers_;
};

/// Whether the calling thread is in a divided loop; and its number among the loop's threads.
inline bool in_parallel() {
#if PLANGRAD_OPENMP_LOOPS
  return omp_in_parallel();
#else
  return ThreadPool::is_inside();
#endif
}
inline int thread_place() {
#if PLANGRAD_OPENMP_LOOPS
  return omp_get_thread_num();
#else
  return ThreadPool::place();
#endif
}

/// Whether kernels of the calling thread take and free their memory, and leave all values alone
/// (Backend::without_values): loops have no turns then, and kernels guard what is outside of them.
inline thread_local bool without_values = false;

/// Calls body(first, last) on disjoint ranges that cover [0, count). `grain` is the smallest number
/// of items worth a thread: waking a thread costs about as much as 20,000 additions.
/// The body must not throw.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  if (without_values) return;
  const std::int64_t worth = count / std::max<std::int64_t>(grain, 1);
  const std::int64_t threads = std::min<std::int64_t>(compute_threads(), worth);
  if (threads < 2 || in_parallel()) {
    if (count > 0) body(0, count);
    return;
  }
#if PLANGRAD_OPENMP_LOOPS
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    std::int64_t i = omp_get_thread_num(), n = omp_get_num_threads();
    body(count * i / n, count * (i + 1) / n);
  }
#else
  const std::int64_t n = std::min(4 * threads, worth);  // a thread that is late leaves some
  ThreadPool::mine().run(static_cast<int>(threads), n,
                         [&](std::int64_t i) { body(count * i / n, count * (i + 1) / n); });
#endif
}

/// The smallest number of elements of an element-wise loop that is worth a thread.
inline constexpr std::int64_t element_grain = 16384;

/// Calls body(i) for each i in [0, count), in several threads. `work`: the cost of a call, in
/// elements of an element-wise loop. The body must not throw.
template <class Body>
void parallel_each(std::int64_t count, std::int64_t work, Body&& body) {
  parallel_for(count, element_grain / std::max<std::int64_t>(work, 1) + 1,
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t i = first; i < last; ++i) body(i);
               });
}

/// A matrix as its rows: x[r] is where row r begins.
template <class T>
struct RowsOf {
  T* data;
  std::int64_t count, width;

  explicit RowsOf(const Tensor& x)
      : data(x.data<T>()), count(x.numel() / x.size(-1)), width(x.size(-1)) {}
  T* operator[](std::int64_t r) const { return data + r * width; }
  /// Calls body(r) for each row, whose elements cost more than those of an element-wise loop.
  template <class Body>
  void for_each(Body&& body) const {
    parallel_each(count, 4 * width, body);
  }
};

/// y[i] = f(x[i]...), in the compute type of y.
template <class T, class F, class... X>
void map(const Tensor& y, F f, const X*... x) {
  T* out = y.data<T>();
  parallel_for(y.numel(), element_grain, [=](std::int64_t first, std::int64_t last) {
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) out[i] = f(static_cast<Compute<X>>(x[i])...);
  });
}

/// Calls body(first, step, place) for each run of a walk's innermost dimension over `count`
/// elements: the run begins at element `first`, at `place`, and moves by `step`.
template <class Body>
void for_runs(std::vector<WalkStep> walk, std::int64_t count, Body&& body) {
  if (walk.empty()) walk.push_back({1, 0, 0});
  const WalkStep step = walk.back();
  const int outer = static_cast<int>(walk.size()) - 1;
  parallel_each(count / std::max<std::int64_t>(step.size, 1), step.size, [&](std::int64_t run) {
    body(run * step.size, step, place_of(walk.data(), outer, run));
  });
}

/// Calls row(r, sums) for each row, which adds to `sums`: `width` values for each tensor of
/// `totals`, one tensor after the other. The tensors receive the sums over all rows.
template <class C, class Row>
void sum_columns(std::int64_t rows, std::int64_t width, const std::vector<Tensor>& totals,
                 Row&& row) {
  constexpr std::int64_t block_rows = 64;
  std::int64_t blocks = (rows + block_rows - 1) / block_rows;
  std::int64_t all = static_cast<std::int64_t>(totals.size()) * width;
  Tensor partial = workspace({blocks, all}, DTypeOf<C>::value, totals[0].device());
  C* sums = partial.data<C>();
  parallel_each(blocks, block_rows * width, [&](std::int64_t block) {
    C* mine = sums + block * all;
    std::fill(mine, mine + all, C(0));
    std::int64_t end = std::min(rows, (block + 1) * block_rows);
    for (std::int64_t r = block * block_rows; r < end; ++r) row(r, mine);
  });
  if (without_values) return;
  for (const Tensor& tensor : totals) {
    C* total = tensor.data<C>();
    std::fill(total, total + width, C(0));
    for (std::int64_t block = 0; block < blocks; ++block)
      for (std::int64_t c = 0; c < width; ++c) total[c] += sums[block * all + c];
    sums += width;
  }
}

/// Folds value(i) over each i in [first, last). Accumulators, which begin as `start`, take the
/// values in turn and are then folded in order.
template <int accumulators, class C, class Fold, class Value>
C fold_in_turn(std::int64_t first, std::int64_t last, C start, Fold fold, Value value) {
  C lane[accumulators];
  std::fill(lane, lane + accumulators, start);
  for (; first + accumulators <= last; first += accumulators)
    for (int l = 0; l < accumulators; ++l) lane[l] = fold(lane[l], value(first + l));
  for (int l = 0; first < last; ++first, ++l) lane[l] = fold(lane[l], value(first));
  return std::accumulate(lane, lane + accumulators, start, fold);
}

}  // namespace plangrad::autograd::cpu
