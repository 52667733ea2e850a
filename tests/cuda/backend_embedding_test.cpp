// The gradient of an embedding's table on the CUDA backend: sums of rows by id, however often an id
// occurs, against f64, and their order.
// Not here: the operation with its other cases (backend_ops_test.cpp).

#include "autograd/backend.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

using Ids = std::vector<std::int32_t>;
constexpr int table_rows = 300;  // two digits of the sort

/// Uniform ids; or by Zipf's law; or few of them, so that most are missing; or all alike.
Ids ids_of(const std::string& kind, int count) {
  Ids ids;
  for (int i = 0; i < count; ++i) {
    const double u = uniform(RandomKey(4, "ids"), i);
    const double id = kind == "uniform" ? u * table_rows
                      : kind == "zipf"  ? std::pow(table_rows + 1.0, u) - 1
                      : kind == "few"   ? 255 + std::floor(3 * u)
                                        : 299;
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

Numbers table_gradient(const Ids& ids, const Tensor& dy) {
  const Tensor dtable = empty({table_rows, dy.size(1)}, DType::f32, dy.device());
  const Tensor list = integers(ids, {dy.size(0)}, dy.device());
  dy.backend().embedding_backward(list, dy, dtable);
  return to_host(dtable);
}

/// Compares with sums in f64, each of which may be off by a rounding for each of its terms.
void check_sums(const Ids& ids, const Tensor& dy, const Numbers& got) {
  const std::int64_t width = dy.size(1);
  Numbers sums(got.size()), sizes(got.size()), terms(table_rows);
  const Numbers rows = to_host(dy);
  for (std::size_t r = 0; r < ids.size(); ++r) {
    ++terms[ids[r]];
    for (std::int64_t c = 0; c < width; ++c) {
      sums[ids[r] * width + c] += rows[r * width + c];
      sizes[ids[r] * width + c] += std::abs(rows[r * width + c]);
    }
  }
  std::string wrong;
  for (std::size_t i = 0; i < got.size() && wrong.empty(); ++i)
    if (!(std::abs(got[i] - sums[i]) <= terms[i / width] * 0x1p-24 * sizes[i]))
      wrong = text("id ", i / width, ", column ", i % width, ": ", got[i], " for ", sums[i]);
  CHECK(wrong == "");
}

}  // namespace

TEST_CASE("embedding: the table's gradient is the sum of each id's rows") {
  Machine machine;
  for (const std::string kind : {"uniform", "zipf", "few", "alike"})
    for (const DType dtype : {DType::f32, DType::bf16})
      // One part; a whole one; two with an odd width; four levels of sums.
      for (auto [count, width] : {std::pair{1, 8}, {32, 24}, {33, 7}, {1100, 264}}) {
        CAPTURE(kind, dtype, count, width);
        const Ids ids = ids_of(kind, count);
        const Tensor dy = uniform_tensor({{count, width}}, "dy", strict_device(), dtype);
        check_sums(ids, dy, table_gradient(ids, dy));
      }
}

TEST_CASE("embedding: the table's gradient has the same bits in every order") {
  for (const std::string kind : {"zipf", "alike"}) {
    std::vector<Numbers> sums;
    for (const Order order : all_orders) {
      Machine machine({.order = order, .schedule = QueueSchedule::random});
      const Tensor dy = uniform_tensor({{1100, 40}}, "dy", strict_device(), DType::bf16);
      sums.push_back(table_gradient(ids_of(kind, 1100), dy));
    }
    CHECK((sums[0] == sums[1] && sums[0] == sums[2]));
  }
}

TEST_CASE("embedding: rows of ids outside the table are left out of its gradient") {
  Machine machine;
  const DevicePtr device = strict_device();
  Ids ids = ids_of("zipf", 100);
  const Tensor dy = uniform_tensor({{100, 8}}, "dy", device, DType::f32);
  const Tensor table = variable(zeros({table_rows, 8}, DType::f32, device));
  ids[3] = -1, ids[50] = table_rows, ids[99] = 1 << 30;
  const Tensor y = embedding(table, integers(ids, {100}, device));
  CHECK_THROWS_WITH(to_host(y), Contains("is outside [0,300)"));
  backward(y, dy);
  Numbers rows = to_host(dy);
  for (int r : {3, 50, 99}) {
    ids[r] = 0;
    std::fill_n(rows.begin() + r * 8, 8, 0);
  }
  const Tensor known = floats({rows.begin(), rows.end()}, {100, 8}, device);
  check_sums(ids, known, to_host(gradient(table)));
}
