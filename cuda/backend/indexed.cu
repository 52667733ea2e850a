// Kernels that move elements: rows, permutations, elements by index.
// Not here: rows of a table by id (embedding.cu); the largest elements of a tensor, with their
// indices (largest.cu).
// Chapters 02, 03 and 11; Singh and Bhatele 2023 (SAMO) for gather and expand.
#include "cuda/backend/map.h"

namespace plangrad::cuda {

namespace {

/// Copies rows of `width` words; pitches are in words.
template <class Word>
__device__ void copy_word(std::int64_t i, std::int64_t width, const Word* x, std::int64_t x_pitch,
                          Word* y, std::int64_t y_pitch) {
  const std::int64_t row = i / width, at = i % width;
  y[row * y_pitch + at] = x[row * x_pitch + at];
}

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

void CudaBackend::copy_rows(In x, Rows from, std::int64_t rows, std::int64_t width, Out y,
                            Rows to) {
  refuse_f64(x);
  const std::int64_t size = size_of(x.dtype());
  const std::byte* in = x.raw() + from.offset * size;
  std::byte* out = y.raw() + to.offset * size;
  dispatch_words(
      [&]<class Word>() {
        const std::int64_t words = width * size / sizeof(Word);
        run_each<copy_word<Word>>(rows * words, words, in, from.pitch * size / sizeof(Word), out,
                                  to.pitch * size / sizeof(Word));
      },
      address_of(in), address_of(out), width * size, from.pitch * size, to.pitch * size);
}

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

}  // namespace plangrad::cuda
