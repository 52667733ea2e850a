// Ranks as threads of one process: each limits its own kernels' threads, and may share memory's
// cache with the others. Not here: whole training steps (parallel/engine/rank_threads_test.cpp).
#include <cstring>
#include <filesystem>
#include <set>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/parallel.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/in_threads.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

/// While it lives, the calling thread has another limit.
struct Limit {
  int before = compute_threads();
  explicit Limit(int n) { set_compute_threads(n); }
  ~Limit() { set_compute_threads(before); }
};

/// How many pieces parallel_for makes of much work.
int pieces() {
  std::vector<char> starts(1000);
  cpu::parallel_for(1000, 1, [&](std::int64_t first, std::int64_t) { starts[first] = 1; });
  return static_cast<int>(std::count(starts.begin(), starts.end(), 1));
}

/// The process's threads, by their ids.
std::set<std::string> threads_now() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ids.insert(task.path().filename());
  return ids;
}

/// How many threads one more call starts.
std::size_t started_by(const std::function<Tensor(const Tensor&)>& kernel, const Tensor& x) {
  std::set<std::string> before = threads_now();
  kernel(x);
  std::set<std::string> after = threads_now();
  return std::count_if(after.begin(), after.end(), [&](auto& id) { return !before.contains(id); });
}

}  // namespace

TEST_CASE("rank threads: a limit is the calling thread's own", "[threads]") {
  int before = compute_threads();
  std::vector<int> limits(4), made(4);
  in_threads(4, [&](int rank) {
    set_compute_threads(rank + 1);
    made[rank] = pieces();
    limits[rank] = compute_threads();
  });
#if PLANGRAD_OPENMP
  std::vector<int> expected = {1, 2, 3, 4};
#else
  std::vector<int> expected = {1, 1, 1, 1};
#endif
  CHECK(limits == expected);
#if PLANGRAD_OPENMP && !PLANGRAD_OPENMP_LOOPS
  expected = {1, 8, 12, 16};  // four for each thread: one that is late leaves some to others
#endif
  CHECK(made == expected);
  CHECK(compute_threads() == before);
  CHECK_THROWS_WITH(set_compute_threads(0), Contains("at least one thread, got 0"));
}

TEST_CASE("rank threads: kernels start as many threads as the limit allows", "[threads]") {
  const std::vector<std::function<Tensor(const Tensor&)>> kernels = {
      [](const Tensor& x) { return relu(x); },
      [](const Tensor& x) { return matmul(x, x); },  // oneDNN has these two,
      [](const Tensor& x) {
        return matmul(x, x, {false, true});
      }};  // on different ways
  for (const auto& kernel : kernels) {
    std::vector<std::size_t> started;
    in_threads(1, [&](int) {
      set_compute_threads(1);
      Tensor x = full({512, 512}, 1, DType::f32, cpu_device());
      for (int limit : {1, 2, 3, 1}) {
        set_compute_threads(limit);
        started.push_back(started_by(kernel, x));
      }
    });
#if PLANGRAD_OPENMP
    CHECK(started == std::vector<std::size_t>{0, 1, 1, 0});
#else
    CHECK(started == std::vector<std::size_t>{0, 0, 0, 0});
#endif
  }
}

TEST_CASE("rank threads: each with its own limit, products have the same bits", "[threads]") {
  using Inputs = std::vector<Tensor>;
  const std::vector<OpCase> products = {
      {"matmul", {{{128, 256}}, {{256, 384}}}, [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"small", {{{64, 48}}, {{48, 80}}}, [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"linear", {{{128, 256}}, {{384, 256}}, {{384}}}, [](const Inputs& x) {
         return linear(x[0], x[1], x[2]);
       }}};
  for (DType dtype : {DType::f32, DType::bf16}) {
    std::vector<OpResults> alone;
    {
      Limit one(1);
      for (const OpCase& product : products) alone.push_back(run_op(product, dtype, cpu_device()));
    }
    std::vector<int> different(4);
    in_threads(4, [&](int rank) {
      for (int round = 0; round < 4; ++round) {
        set_compute_threads((rank + round) % 4 + 1);  // compiled products follow the limit, too
        DevicePtr device = cpu_device();
        for (std::size_t i = 0; i < products.size(); ++i)
          different[rank] += run_op(products[i], dtype, device) != alone[i];
      }
    });
    INFO(dtype);
    CHECK(different == std::vector<int>(4, 0));
  }
}

TEST_CASE("rank threads: blocks of one backend are nobody else's", "[threads]") {
  auto backend = std::make_shared<CpuBackend>();
  std::vector<int> overwritten(4);
  in_threads(4, [&](int rank) {
    for (int round = 0; round < 500; ++round) {
      std::vector<std::pair<char*, std::int64_t>> blocks;
      for (std::int64_t bytes : {1, 64, 1000, 4096 + round})
        blocks.emplace_back(static_cast<char*>(backend->allocate(bytes)), bytes);
      for (auto [block, bytes] : blocks) std::memset(block, rank, bytes);
      for (auto [block, bytes] : blocks) {
        overwritten[rank] += std::count(block, block + bytes, rank) != bytes;
        backend->free(block, bytes);
      }
    }
  });
  CHECK(overwritten == std::vector<int>(4, 0));
}

TEST_CASE("rank threads: a message lane's storages beside a computing thread", "[threads]") {
  DevicePtr device = cpu_device();
  constexpr int rounds = 500;
  std::vector<std::shared_ptr<Storage>> kept(rounds);  // deleted by another thread
  in_threads(2, [&](int lane) {
    for (int i = 0; i < rounds; ++i) {
      if (lane == 0) {
        CategoryScope category(*device, Category::workspace);
        Tensor x = full({1000}, 1, DType::f32, device);
        if (item(x.window(999, {1})) != 1) throw Error("lost a value");
      } else {
        kept[i] = std::make_shared<Storage>(device, 4000, Category::communication);
        std::memset(kept[i]->data(), 0, 4000);
        if (i % 2) kept[i] = nullptr;
      }
    }
  });
  const MemoryMeter& meter = device->meter();
  CHECK(meter.live(Category::communication) == rounds / 2 * 4000);
  CHECK(meter.peak(Category::communication) == (rounds / 2 + 1) * 4000);
  CHECK(meter.live(Category::workspace) == 0);
  in_threads(1, [&](int) { kept.clear(); });
  CHECK(meter.live() == 0);
}
