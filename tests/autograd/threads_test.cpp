// Threads: every kernel that shares out work gives the same bits on one, two and three of them.
// Not here: the image kernels and random numbers, whose own tests ask the same. Chapter 03.
#if PLANGRAD_OPENMP
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

/// Result and gradients must have the same bits. Sizes are several grains of work, and odd.
void check_threads(const OpCase& op, DType dtype) {
  std::vector<OpResults> results;
  int before = compute_threads();
  for (int threads : {1, 2, 3}) {
    set_compute_threads(threads);
    results.push_back(run_op(op, dtype, cpu_device()));
  }
  set_compute_threads(before);
  INFO(op.name << " in " << dtype);
  bool two = results[1] == results[0], three = results[2] == results[0];
  CHECK(two);
  CHECK(three);
}

void check_threads(const OpCase& op) {
  for (DType dtype : {DType::f32, DType::bf16}) check_threads(op, dtype);
}

using Inputs = std::vector<Tensor>;

}  // namespace

TEST_CASE("threads: row kernels give the same bits", "[threads]") {
  Shape shape{331, 301};
  check_threads({"softmax", {{shape, -3, 3}}, [](const Inputs& x) { return softmax(x[0]); }});
  check_threads({"layer_norm", {{shape}, {{301}}, {{301}}}, [](const Inputs& x) {
                   return layer_norm(x[0], x[1], x[2]);
                 }});
  check_threads(
      {"bias_gelu", {{shape}, {{301}}}, [](const Inputs& x) { return bias_gelu(x[0], x[1]); }});
  std::vector<std::int32_t> ids(331);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 301);
  check_threads({"cross_entropy", {{shape, -3, 3}}, [ids](const Inputs& x) {
                   return cross_entropy(x[0], integers(ids, {331}, x[0].device()));
                 }});
  check_threads({"embedding", {{{301, 301}}}, [ids](const Inputs& x) {
                   return embedding(x[0], integers(ids, {331}, x[0].device()));
                 }});
}

TEST_CASE("threads: attention gives the same bits", "[threads]") {
  check_threads(
      {"attention", {{{5, 65, 3 * 68}}}, [](const Inputs& x) { return attention(x[0], 4); }});
}

TEST_CASE("threads: reductions and dropout give the same bits", "[threads]") {
  OpInput x{{67, 41, 53}};
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 2}}) {
    check_threads({"sum", {x}, [axes](const Inputs& v) { return sum(v[0], axes); }});
    check_threads({"max", {x}, [axes](const Inputs& v) { return max(v[0], axes); }});
  }
  check_threads({"sum of all", {x}, [](const Inputs& v) { return sum(v[0]); }});
  check_threads({"dropout", {x}, [](const Inputs& v) {
                   return dropout(v[0], 0.25, RandomKey(1, "dropout"));
                 }});
}

TEST_CASE("threads: matrix products give the same bits", "[threads]") {
  struct Size {
    std::int64_t m, k, n;
  };
  for (Size s : {Size{64, 48, 80}, {128, 512, 768}})
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        check_threads(
            {text("matmul ", s.m, ' ', s.k, ' ', s.n, ta ? " T" : "", tb ? " T'" : ""),
             {{ta ? Shape{s.k, s.m} : Shape{s.m, s.k}}, {tb ? Shape{s.n, s.k} : Shape{s.k, s.n}}},
             [=](const Inputs& x) {
               return matmul(x[0], x[1], {ta, tb});
             }});
  check_threads({"linear", {{{128, 512}}, {{768, 512}}, {{768}}}, [](const Inputs& x) {
                   return linear(x[0], x[1], x[2]);
                 }});
}

#endif
