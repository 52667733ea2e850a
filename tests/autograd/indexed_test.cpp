// Gathering and expanding: against loops, in all types, on one thread and several.

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/numbers.h"

using namespace plangrad::tests;

namespace {

Tensor normals(const std::string& name, std::int64_t count, DType dtype, const DevicePtr& device) {
  Tensor x = empty({count}, dtype, device);
  x.backend().fill_normal(RandomKey(1, name), 0, 1, x);
  return x;
}

/// About a third of the elements.
std::vector<std::int32_t> some_of(std::int64_t count) {
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < count; ++i)
    if (random_bits(RandomKey(2, "index"), i) % 3 == 0)
      index.push_back(static_cast<std::int32_t>(i));
  return index;
}

Tensor on(const std::vector<std::int32_t>& index, const DevicePtr& device) {
  return from_host(index, {static_cast<std::int64_t>(index.size())}, device);
}

}  // namespace

TEST_CASE("gather reads elements, or adds them, and expand puts them among zeros") {
  const int before = compute_threads();
  for (const DevicePtr& device : {cpu_device(), guarded_device()})
    for (int threads : {1, 3})
      for (std::int64_t count : {1, 7, 70000})
        for (DType from : {DType::f32, DType::bf16, DType::f64})
          for (DType to : {DType::f32, DType::bf16, DType::f64}) {
            set_compute_threads(threads);
            const auto index = some_of(count);
            const Tensor places = on(index, device), x = normals("x", count, from, device);
            const Tensor y = normals("y", places.numel(), to, device);
            const Numbers all = to_host(x);
            Tensor picked = empty(y.shape(), from, device);
            x.backend().gather(x, places, false, picked);
            Numbers expected;
            for (std::int32_t i : index) expected.push_back(all[i]);
            CHECK(to_host(picked) == expected);

            Tensor copy = empty(y.shape(), to, device), whole = empty(x.shape(), to, device);
            x.backend().copy(picked, copy);
            x.backend().gather(x, places, false, y);
            CHECK(to_host(y) == to_host(copy));
            x.backend().expand(copy, places, whole);
            const Numbers spread = to_host(whole), values = to_host(copy);
            Numbers zeros(count, 0);
            for (std::size_t i = 0; i < index.size(); ++i) zeros[index[i]] = values[i];
            CHECK(spread == zeros);

            // Adding is what accumulate does to what was gathered.
            Tensor sum = normals("y", y.numel(), to, device),
                   same = normals("y", y.numel(), to, device);
            x.backend().gather(x, places, true, sum);
            if (size_of(from) <= size_of(to)) {
              x.backend().accumulate(copy, same);
              CHECK(to_host(sum) == to_host(same));
            }
          }
  set_compute_threads(before);
}

TEST_CASE("an index that is not in the tensor is refused") {
  const DevicePtr device = cpu_device();
  const Tensor x = normals("x", 4, DType::f32, device), y = normals("y", 2, DType::f32, device);
  for (const auto& index : {std::vector<std::int32_t>{1, 4}, {-1, 2}}) {
    CHECK_THROWS_WITH(x.backend().gather(x, on(index, device), false, y), Contains("gather: ind"));
    CHECK_THROWS_WITH(x.backend().expand(y, on(index, device), x), Contains("expand: ind"));
  }
  CHECK_THROWS_WITH(x.backend().gather(x, on({1}, device), false, y),
                    Contains("there are 1 indices for 2 elements"));
}
