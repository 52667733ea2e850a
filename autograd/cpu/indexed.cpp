// Elements by their index: gathered from a tensor, and put back among zeros.
// Not here: which elements these are (sparse/mask.h), and messages of them (sparse_values.cpp).
// Chapter 11; Singh and Bhatele 2023 (SAMO).
#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/parallel.h"

namespace paragrad::autograd {

namespace {

/// Indices ascend, so that the ends tell of all.
void check_index(const char* kernel, const Tensor& index, std::int64_t listed, const Tensor& all) {
  const std::int64_t count = index.numel();
  PG_CHECK(count == listed, kernel, ": there are ", count, " indices for ", listed, " elements");
  if (count == 0) return;
  const std::int32_t* i = index.data<std::int32_t>();
  PG_CHECK(i[0] >= 0 && i[count - 1] < all.numel(), kernel, ": indices ", i[0], " to ",
           i[count - 1], " are not all in a tensor of ", all.numel(), " elements");
}

}  // namespace

void CpuBackend::gather(In x, In index, bool add, Out y) {
  check_index("gather", index, y.numel(), x);
  const std::int32_t* at = index.data<std::int32_t>();
  dispatch(x.dtype(), [&]<class From>() {
    dispatch(y.dtype(), [&]<class To>() {
      const From* from = x.data<From>();
      To* to = y.data<To>();
      cpu::parallel_each(y.numel(), 1, [=](std::int64_t i) {
        const auto value = static_cast<Compute<To>>(static_cast<Compute<From>>(from[at[i]]));
        to[i] = add ? static_cast<Compute<To>>(to[i]) + value : value;
      });
    });
  });
}

void CpuBackend::expand(In x, In index, Out y) {
  check_index("expand", index, x.numel(), y);
  fill(0, y);
  const std::int32_t* at = index.data<std::int32_t>();
  dispatch(y.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    cpu::parallel_each(x.numel(), 1, [=](std::int64_t i) { to[at[i]] = from[i]; });
  });
}

}  // namespace paragrad::autograd
