// Sums and gathers by NCCL's own collectives, on the emulator: all members get the same bits, near
// the exact sum, and whoever is late, lost or at odds with the others is reported.
// Not here: sums of messages (collective_suite.cpp). Chapter 13.
#include <numeric>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "cuda/backend/cuda_backend.h"
#include "cuda/devices.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/cuda/meeting.h"
#include "tests/error_of.h"
#include "tests/parallel/support/grid.h"
#include "tests/sanitized.h"

using namespace plangrad;
using namespace plangrad::tests;
using plangrad::cuda::cuda_device;

namespace {

constexpr double timeout = 60;
using When = cuda::emulator::Schedule;

Seat seat_of(Transport& inner) {
  const DevicePtr device = cuda_device(inner.rank(), {.keeps_blocks = false});
  return {device, cuda::make_transport(inner, device, /*by_nccl*/ true, timeout)};
}

/// body(transport, device) on a thread a rank.
template <class Body>
void on_devices(int ranks, Body body) {
  run_ranks(ranks, [&](Transport& inner) {
    const Seat seat = seat_of(inner);
    body(*seat.transport, seat.device);
  });
}

/// Element i of a rank's part: of many sizes and both signs, and a bf16 number.
float value(int rank, int i) {
  const int mixed = (i + 1) * 7919 + (rank + 1) * 104729;
  return std::ldexp(static_cast<float>(mixed % 255 - 127), mixed % 11);
}

Tensor values(int rank, int count, DType dtype, const DevicePtr& device) {
  std::vector<float> all(count);
  for (int i = 0; i < count; ++i) all[i] = value(rank, i);
  return from_host(all, {count}, device, dtype);
}

/// Whatever the order: n - 1 additions, each rounded by a share u of what is summed so far, which
/// is at most the sum of all sizes (Higham 2002, section 4.2).
void check_sum(const std::vector<double>& got, const std::vector<int>& ranks, DType dtype) {
  const double u = std::ldexp(1, dtype == DType::f32 ? -24 : -8);
  const double steps = static_cast<double>(ranks.size() - 1) * u, gamma = steps / (1 - steps);
  for (std::size_t i = 0; i < got.size(); ++i) {
    double exact = 0, sizes = 0;
    for (int rank : ranks) {
      exact += value(rank, static_cast<int>(i));
      sizes += std::abs(value(rank, static_cast<int>(i)));
    }
    PG_CHECK(std::abs(got[i] - exact) <= gamma * sizes, "element ", i, " is ", got[i],
             ", expected ", exact, " within ", gamma * sizes);
  }
}

void finish(Transport& transport, Request& request, double seconds = timeout) {
  wait_for(transport, request, seconds, "a sum");
}

/// Sums of two groups that share ranks, and one of the second type behind the first, on all of
/// them; odd ranks begin with the other group.
void sums_of_two_groups(Transport& transport, const DevicePtr& device,
                        std::vector<std::vector<double>>& results) {
  const int rank = transport.rank(), ranks = transport.size();
  std::vector<int> all(ranks), few{0, 1, ranks - 1};
  std::iota(all.begin(), all.end(), 0);
  const bool in_few = std::find(few.begin(), few.end(), rank) != few.end();
  const Tensor x = values(rank, 1000, DType::f32, device), y = values(rank, 77, DType::f32, device);
  const Tensor z = values(rank, 500, DType::bf16, device);
  auto begin = [&](const std::vector<int>& group, int channel, const Tensor& sum) {
    return transport.together(Joint::all_reduce, group, group_channel(channel), sum, {});
  };
  std::unique_ptr<Request> first, second;
  if (in_few && rank % 2) second = begin(few, 1, y);
  first = begin(all, 0, x);
  if (in_few && !second) second = begin(few, 1, y);
  finish(transport, *first);
  first = begin(all, 0, z);
  finish(transport, *first);
  if (second) finish(transport, *second);
  check_sum(to_host(x), all, DType::f32);
  check_sum(to_host(z), all, DType::bf16);
  if (in_few) check_sum(to_host(y), few, DType::f32);
  results[rank] = to_host(x);
  for (double sum : to_host(z)) results[rank].push_back(sum);
}

}  // namespace

TEST_CASE("NCCL's sums: the same bits on all ranks, near the exact sum, of several groups") {
  for (When schedule : all_schedules)
    for (int ranks : fewer<int>({4, 3})) {
      CAPTURE(int(schedule), ranks);
      Machine machine({.schedule = schedule});
      std::vector<std::vector<double>> results(ranks);
      CHECK_NOTHROW(on_devices(ranks, [&](Transport& transport, const DevicePtr& device) {
        sums_of_two_groups(transport, device, results);
      }));
      CHECK(results == std::vector(ranks, results[0]));
    }
}

TEST_CASE("NCCL's sums follow the kernels that were queued before them") {
  for (When schedule : all_schedules) {
    Machine machine({.schedule = schedule});
    std::vector<double> sums(2);
    on_devices(2, [&](Transport& transport, const DevicePtr& device) {
      const Tensor x = full({1}, 1, DType::f32, device);
      x.backend().fill(transport.rank() + 5, x);
      finish(transport, *transport.together(Joint::all_reduce, {0, 1}, 1, x, {}));
      sums[transport.rank()] = item(x);
      x.backend().fill(0, x);
    });
    CHECK(sums == std::vector<double>{11, 11});
  }
}

namespace {

/// Sums x by chunks, then gathers the chunks of all members; returns what all have then.
std::vector<double> sum_in_halves(Transport& transport, const std::vector<int>& ranks,
                                  const Tensor& x) {
  const auto members = static_cast<int>(ranks.size());
  const auto member = std::find(ranks.begin(), ranks.end(), transport.rank()) - ranks.begin();
  const Range own = chunk_range(x.numel(), static_cast<int>(member), members);
  finish(transport, *transport.together(Joint::reduce_scatter, ranks, group_channel(0), x, {}));
  const std::vector<double> sum = to_host(x);
  const Tensor gathered = full({x.numel()}, std::nan(""), x.dtype(), x.device());
  const Shape size{own.size()};
  x.backend().copy(x.window(own.begin, size), gathered.window(own.begin, size));
  finish(transport, *transport.together(Joint::all_gather, ranks, group_channel(0), gathered, {}));
  const std::vector<double> all = to_host(gathered);
  PG_CHECK(std::equal(sum.begin() + own.begin, sum.begin() + own.end, all.begin() + own.begin),
           "a gather has changed the rank's own chunk");
  return all;
}

}  // namespace

TEST_CASE("NCCL's sums by chunks, and gathers: of equal chunks, unequal ones and empty ones") {
  const std::vector<int> ranks{0, 2, 3};  // of four
  for (When schedule : all_schedules)
    for (auto [count, dtype] : fewer<std::pair<int, DType>>({{999, DType::f32},
                                                             {1000, DType::f32},
                                                             {1001, DType::bf16},
                                                             {3, DType::bf16},
                                                             {2, DType::f32},
                                                             {1, DType::f32}})) {
      CAPTURE(int(schedule), count, dtype);
      Machine machine({.schedule = schedule, .one_nccl_operation = schedule == When::random});
      std::vector<std::vector<double>> results(4);
      CHECK_NOTHROW(on_devices(
          4, [&, count = count, dtype = dtype](Transport& transport, const DevicePtr& device) {
            const int rank = transport.rank();
            if (rank == 1) return;
            results[rank] = sum_in_halves(transport, ranks, values(rank, count, dtype, device));
            check_sum(results[rank], ranks, dtype);
          }));
      for (int rank : ranks) {
        CHECK(results[rank].size() == static_cast<std::size_t>(count));
        CHECK(results[rank] == results[0]);
      }
    }
}

namespace {

std::string report_of(int ranks, const std::function<void(Transport&, const DevicePtr&)>& body) {
  return error_of([&] { on_devices(ranks, body); });
}

}  // namespace

TEST_CASE("NCCL's sums: ranks that disagree on what they sum up are told so") {
  Machine machine;
  auto report = [](int count, DType dtype, Joint what = Joint::all_reduce) {
    return report_of(3, [=](Transport& transport, const DevicePtr& device) {
      const bool odd = transport.rank() == 1;
      const Tensor x = full({odd ? count : 4}, 1, odd ? dtype : DType::f32, device);
      const Joint here = odd ? what : Joint::all_reduce;
      finish(transport, *transport.together(here, {0, 1, 2}, group_channel(0), x, {}));
    });
  };
  CHECK_THAT(report(3, DType::f32),
             StartsWith("rank 0: rank 1 sums up 3 values of f32 on channel 1, but rank 0 "
                        "sums up 4 values of f32 on channel 1; both must run the same plan") &&
                 Contains("rank 2: stopped waiting for a sum because of rank 0"));
  CHECK_THAT(report(4, DType::bf16), Contains("rank 1 sums up 4 values of bf16"));
  CHECK_THAT(report(4, DType::f32, Joint::reduce_scatter),
             StartsWith("rank 0: rank 1 sums up by chunks 4 values of f32 on channel 1, but rank 0 "
                        "sums up 4 values of f32 on channel 1"));
  CHECK_THAT(report(4, DType::f32, Joint::all_gather), Contains("rank 1 gathers 4 values of f32"));
  CHECK(report(4, DType::f32).empty());
}

TEST_CASE("NCCL's sums: a rank that is late is waited for until the deadline") {
  Machine machine;
  for (auto [late, what] : {std::pair(0, Joint::all_reduce),
                            {1, Joint::all_reduce},
                            {0, Joint::all_gather},
                            {1, Joint::reduce_scatter}}) {
    std::string report =
        report_of(2, [late = late, what = what](Transport& transport, const DevicePtr& device) {
          const Tensor x = full({4}, 1, DType::f32, device);
          transport.publish({.cell = 7, .plan = 0});
          if (transport.rank() == late)
            for (Deadline deadline(timeout); !transport.failure(); std::this_thread::yield())
              PG_CHECK(deadline.left() > 0, "nobody minds");
          finish(transport, *transport.together(what, {0, 1}, group_channel(0), x, {}), 0.1);
        });
    CHECK_THAT(report, StartsWith(text("rank ", 1 - late, ": waited 0.1 s for a sum")));
  }
}

TEST_CASE("NCCL's sums: one that a rank gives up in the middle ends in a report") {
  Joint what = Joint::all_reduce;
  int count = 4;
  auto body = [&](Transport& transport, const DevicePtr& device) {
    const int rank = transport.rank();
    std::optional<Tensor> x = full({count}, 1, DType::f32, device);
    auto sum = transport.together(what, {0, 1}, group_channel(0), *x, {});
    meet(transport, 1);
    if (rank == 0) PG_CHECK(!sum->done(), "the first member has only let both begin");
    meet(transport, 2);
    if (rank == 1) {
      PG_CHECK(!sum->done(), "the first member has not called NCCL");
      sum.reset();
      x.reset();
      backend_of(device).synchronize();  // the memory is gone
    }
    meet(transport, 3);
    if (rank == 0)
      for (int i = 0; i < 20; ++i) PG_CHECK(!sum->done(), "the other rank has given up");
    meet(transport, 4);
    PG_CHECK(rank == 0, "the file is empty");
    wait_for_failure(transport);
    finish(transport, *sum);
  };
  const std::vector<std::pair<Joint, int>> cases{{Joint::all_reduce, 4},
                                                 {Joint::reduce_scatter, 4},
                                                 {Joint::reduce_scatter, 5},
                                                 {Joint::all_gather, 5}};
  for (const auto& each : cases) {
    std::tie(what, count) = each;
    CAPTURE(int(what), count);
    Machine machine({.schedule = When::lazy, .silent_aborts = count == 4 ? 0. : 1.});
    CHECK(report_of(2, body) ==
          "rank 1: the file is empty\nrank 0: stopped waiting for a sum because of rank 1");
  }
}

TEST_CASE("NCCL's sums: what it cannot sum up is refused") {
  Machine machine;
  on_devices(1, [&](Transport& transport, const DevicePtr& device) {
    auto sum = [&](const std::vector<int>& ranks, const Tensor& x) {
      return transport.together(Joint::all_reduce, ranks, group_channel(0), x, {});
    };
    CHECK_THROWS_WITH(sum({0}, full({2}, 1, DType::f32, cpu_device())),
                      Contains("rank 0: NCCL sums up memory of its device, not "));
    CHECK_THROWS_WITH(sum({0}, empty({2}, DType::u8, device)),
                      Contains("NCCL sums up and gathers f32 and bf16, not "));
    CHECK_THROWS_WITH(sum({1}, full({2}, 1, DType::f32, device)),
                      Contains("rank 0 is no member of the group"));
    CHECK_THROWS_WITH(sum({1, 0}, full({2}, 1, DType::f32, device)),
                      Contains("the ranks of a group ascend") && Contains("they are 1, 0"));
  });
}
