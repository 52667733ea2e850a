// Checks of collectives: results bit for bit, and the bytes that each member sends.
#include <cstring>
#include <numeric>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/transports/launch.h"
#include "tests/parallel/support/promised_sum.h"
#include "tests/parallel/support/transport_suite.h"
#include "tests/sanitized.h"

namespace plangrad::tests {
namespace {

using namespace parallel;

constexpr double timeout = 60;

/// Member m's element i: of many sizes, so that the order of a sum is seen in its last bits.
template <class T>
T value(int member, std::int64_t i) {
  std::int64_t mixed = (i + 1) * 7919 + (member + 1) * 104729;
  auto small = static_cast<double>(mixed * mixed % 65521 - 32760) / 32768;  // in (-1, 1)
  return static_cast<T>(static_cast<float>(small * static_cast<double>(1 << mixed % 20)));
}

template <class T>
Tensor values(int member, std::int64_t count, const DevicePtr& device) {
  std::vector<T> all(count);
  for (std::int64_t i = 0; i < count; ++i) all[i] = value<T>(member, i);
  Tensor result = empty({count}, DTypeOf<T>::value, device);
  result.backend().copy_from_host(all.data(), result);
  return result;
}

/// Element i of the members' sum.
template <class T>
T sum(const Summing& how, int members, int chunk, std::int64_t i) {
  return promised_sum(
      how, members, chunk, [&](int member) { return value<T>(member, i); },
      [](T a, T b) { return static_cast<T>(a + b); });
}

/// One member's view of a group: who it is, and what collectives run on.
struct Seat {
  Transport& transport;
  DevicePtr device;
  std::vector<int> ranks;
  int member;
  std::int64_t piece_bytes;

  int members() const { return static_cast<int>(ranks.size()); }
  std::int64_t run(const Collective& collective, const Tensor& data) const {
    CollectiveRun run(collective, data, ranks, group_channel(3), piece_bytes);
    finish(run, transport, timeout);
    return run.bytes_sent();
  }
};

/// Chunks `first` to `last` of x are what `expected(chunk, i)` says, to the bit.
template <class T, class Expected>
void check_chunks(const char* what, const Tensor& x, int chunks, int first, int last,
                  Expected expected) {
  std::vector<T> data(x.numel());
  x.backend().copy_to_host(x, data.data());
  for (int chunk = first; chunk <= last; ++chunk) {
    Range range = chunk_range(x.numel(), chunk, chunks);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      T want = expected(chunk, i), got = data[i];
      PG_CHECK(std::memcmp(&want, &got, sizeof(T)) == 0, what, ", ", chunks, " members, ", x,
               ": element ", i, " is ", got, ", expected ", want);
    }
  }
}

void check_bytes(const char* what, std::int64_t sent, std::int64_t expected) {
  PG_CHECK(sent == expected, what, ": sent ", sent, " bytes, expected ", expected);
}

template <class T>
void check_all_reduce(const Seat& seat, const Summing& how, std::int64_t count) {
  const int n = seat.members();
  const Collective list = all_reduce(how, seat.member, n);
  Tensor x = values<T>(seat.member, count, seat.device);
  seat.run(list, x);
  check_chunks<T>("all_reduce", x, list.chunks, 0, list.chunks - 1,
                  [&](int chunk, std::int64_t i) { return sum<T>(how, n, chunk, i); });
}

template <class T>
void check_sums(const Seat& seat, AllReduce how, std::int64_t count) {
  int n = seat.members(), r = seat.member;
  auto summed = [&](int chunk, std::int64_t i) { return sum<T>({how}, n, chunk, i); };
  auto own = [&](int chunk, std::int64_t i) { return value<T>(chunk, i); };

  Tensor x = values<T>(r, count, seat.device);
  std::int64_t sent = seat.run(all_reduce({how}, r, n), x);
  check_chunks<T>("all_reduce", x, n, 0, n - 1, summed);
  if (count % n == 0) check_bytes("all_reduce", sent, 2 * (n - 1) * x.bytes() / n);

  x = values<T>(r, count, seat.device);
  sent = seat.run(reduce_scatter({how}, r, n), x);
  check_chunks<T>("reduce_scatter", x, n, r, r, summed);
  if (count % n == 0) check_bytes("reduce_scatter", sent, (n - 1) * x.bytes() / n);

  x = values<T>(r, count, seat.device);  // of which chunk r counts
  sent = seat.run(all_gather({how}, r, n), x);
  check_chunks<T>("all_gather", x, n, 0, n - 1, own);
  if (count % n == 0) check_bytes("all_gather", sent, (n - 1) * x.bytes() / n);
}

void check_group(const Seat& seat, const std::vector<std::int64_t>& counts) {
  for (std::int64_t count : counts) {
    for (const auto& [name, how] : reductions()) {
      if (!entry_of(how).has_parts()) continue;
      check_sums<float>(seat, how, count);
      if (seat.device->backend().has_f64()) check_sums<double>(seat, how, count);
      check_sums<bf16>(seat, how, count);
    }
    std::vector<int> hosts;  // pairs, and not in a row
    for (int member = 0; member < seat.members(); ++member) hosts.push_back(member / 2 % 3);
    std::vector<Summing> whole{{AllReduce::direct}};
    for (const auto& [name, how] : reductions())
      for (const auto& of_members : {std::vector<int>(), hosts})
        if (!entry_of(how).has_parts()) whole.push_back({how, of_members});
    for (const Summing& how : whole) {
      check_all_reduce<float>(seat, how, count);
      if (!sanitized || count == counts.back()) check_all_reduce<bf16>(seat, how, count);
    }
  }
}

/// Sums of two groups, carried on in turn by one thread, beside a message between neighbours.
void check_several_at_once(Transport& transport, const DevicePtr& device) {
  int n = transport.size(), r = transport.rank();
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  Tensor a = values<float>(r, 50000, device), b = values<float>(r, 30000, device);
  Tensor out = values<float>(r, 1000, device), in = empty_like(out);
  CollectiveRun first(all_reduce({AllReduce::ring}, r, n), a, ranks, group_channel(0), 4096);
  CollectiveRun second(all_reduce({AllReduce::scatter_reduce}, r, n), b, ranks, group_channel(1),
                       4096);
  auto sent = transport.send({(r + 1) % n, plan_channel, out.raw(), out.bytes()});
  auto arrived = transport.receive({(r + n - 1) % n, plan_channel, in.raw(), in.bytes()});
  Deadline deadline(timeout);
  for (;;) {
    bool over = first.advance(transport);
    over &= second.advance(transport);
    over &= sent->done();
    over &= arrived->done();
    if (over) break;
    wait_for_news(transport, deadline, [] { return "two sums and a message"; });
  }
  PG_CHECK(first.waits_for() == -1, "it is over and waits");
  auto summed = [&](int chunk, std::int64_t i) {
    return sum<float>({AllReduce::ring}, n, chunk, i);
  };
  check_chunks<float>("first of two", a, n, 0, n - 1, summed);
  check_chunks<float>("second of two", b, n, 0, n - 1, [&](int chunk, std::int64_t i) {
    return sum<float>({AllReduce::scatter_reduce}, n, chunk, i);
  });
  check_chunks<float>("message", in, 1, 0, 0,
                      [&](int, std::int64_t i) { return value<float>((r + n - 1) % n, i); });
}

}  // namespace

void collective_checks(Transport& transport, const DevicePtr& device, bool quick) {
  set_compute_threads(1);  // the ranks share the machine
  int n = transport.size();
  std::vector<int> all(n), odd;
  std::iota(all.begin(), all.end(), 0);
  for (int rank = n - 1; rank > 0; --rank)
    if (rank % 2) odd.push_back(rank);  // descending: a member's number is not its rank's order
  std::vector<std::int64_t> counts{0, 1, 3, 1000, sanitized ? 6000 : 60000};
  if (quick) counts = {0, 3, 6000};
  check_group({transport, device, all, transport.rank(), 8192}, counts);
  if (!quick && !sanitized)
    check_group({transport, device, all, transport.rank(), default_piece}, {100003});
  for (std::size_t member = 0; member < odd.size(); ++member)
    if (odd[member] == transport.rank())
      check_group({transport, device, odd, static_cast<int>(member), 8192}, {3, 10000});
  check_several_at_once(transport, device);
  PG_CHECK(device->meter().live(Category::communication) == 0, "scratch was not freed");
}

}  // namespace plangrad::tests
