// Collectives as lists: what they say, without a transport; and collectives that cannot work. The
// results on real numbers are checked by the suite (collective_suite.cpp). Chapter 04.
#include "parallel/collective.h"

#include <functional>
#include <map>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/collective_run.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"

using namespace paragrad::parallel;
using enum Exchange::Action;

namespace {

/// One sum, written so that a + b and b + a, which have the same bits, are the same text.
std::string plus(const std::string& a, const std::string& b) {
  return "(" + std::min(a, b) + "+" + std::max(a, b) + ")";
}

using Chunks = std::vector<std::string>;

/// Carries out a round of all members' lists on symbols; each chunk that is received must have been
/// sent, once.
void carry_out(const std::vector<Collective>& lists, std::size_t round,
               std::vector<Chunks>& values) {
  std::vector<Chunks> before = values;
  for (std::size_t r = 0; r < lists.size(); ++r) {
    std::string carried;
    for (const Exchange& x : lists[r].rounds[round]) {
      if (x.action == send) continue;
      int matches = 0;
      for (const Exchange& y : lists[x.peer].rounds[round])
        matches += y == Exchange{send, static_cast<int>(r), x.chunk};
      REQUIRE(matches == 1);
      std::string arrived = before[x.peer][x.chunk];
      if (!carried.empty()) arrived = plus(carried, arrived);
      carried = x.action == carry ? arrived : "";
      if (x.action == copy) values[r][x.chunk] = arrived;
      if (x.action == add) values[r][x.chunk] = plus(values[r][x.chunk], arrived);
    }
    REQUIRE(carried.empty());
  }
}

/// The members' chunks after a collective; member m begins with `m` in every chunk.
std::vector<Chunks> results(int members, const std::function<Collective(int member)>& list) {
  std::vector<Collective> lists;
  std::vector<Chunks> values;
  for (int m = 0; m < members; ++m) {
    lists.push_back(list(m));
    values.push_back(Chunks(lists[m].chunks, std::to_string(m)));
  }
  for (std::size_t round = 0; round < lists[0].rounds.size(); ++round)
    carry_out(lists, round, values);
  return values;
}

/// What summation_order promises.
std::string promised(AllReduce how, int members, int chunk) {
  std::vector<int> order = summation_order(how, members, chunk);
  std::string sum = std::to_string(order[0]);
  for (std::size_t i = 1; i < order.size(); ++i) sum = plus(sum, std::to_string(order[i]));
  return sum;
}

constexpr AllReduce both[] = {AllReduce::scatter_reduce, AllReduce::ring};

}  // namespace

TEST_CASE("collective: chunks cover everything, evenly", "[collective]") {
  for (std::int64_t count : {0, 1, 3, 10, 1000})
    for (int chunks : {1, 2, 3, 7}) {
      std::int64_t end = 0;
      for (int c = 0; c < chunks; ++c) {
        Range range = chunk_range(count, c, chunks);
        CHECK(range.begin == end);
        CHECK(range.size() >= count / chunks);
        CHECK(range.size() <= count / chunks + 1);
        end = range.end;
      }
      CHECK(end == count);
    }
}

TEST_CASE("collective: sums have the promised order", "[collective]") {
  CHECK(summation_order(AllReduce::scatter_reduce, 4, 2) == std::vector<int>{0, 1, 2, 3});
  CHECK(summation_order(AllReduce::ring, 4, 2) == std::vector<int>{3, 0, 1, 2});
  for (AllReduce how : both)
    for (int n = 1; n <= 9; ++n) {
      auto reduced = results(n, [&](int m) { return all_reduce(how, m, n); });
      auto scattered = results(n, [&](int m) { return reduce_scatter(how, m, n); });
      auto gathered = results(n, [&](int m) { return all_gather(how, m, n); });
      for (int m = 0; m < n; ++m) {
        CHECK(scattered[m][m] == promised(how, n, m));
        for (int chunk = 0; chunk < n; ++chunk) {
          CHECK(reduced[m][chunk] == promised(how, n, chunk));
          CHECK(gathered[m][chunk] == std::to_string(chunk));
        }
      }
    }
}

TEST_CASE("collective: every member sends 2 (N-1) chunks", "[collective]") {
  for (AllReduce how : both)
    for (int n = 1; n <= 9; ++n)
      for (int m = 0; m < n; ++m) {
        int sends = 0;
        for (const Round& round : all_reduce(how, m, n).rounds)
          for (const Exchange& exchange : round) sends += exchange.action == send;
        CHECK(sends == 2 * (n - 1));
      }
}

TEST_CASE("collective: members that do not exist", "[collective]") {
  CHECK_THROWS_WITH(all_reduce(AllReduce::ring, 3, 3), Contains("member 3 of a group of 3"));
  CHECK_THROWS_WITH(all_gather(AllReduce::ring, 0, 0), Contains("member 0 of a group of 0"));
  CHECK_THROWS_WITH(broadcast(-1, 0, 2), Contains("member -1"));
}

TEST_CASE("collective: a sum that somebody does not join ends with a report", "[collective]") {
  auto absent = [](Transport& transport) {
    if (transport.rank() == 1) return;
    Tensor x = zeros({100}, DType::f32, cpu_device());
    CollectiveRun sum(all_reduce(AllReduce::scatter_reduce, transport.rank(), 3), x, {0, 1, 2}, 1);
    finish(sum, transport, 0.05);
  };
  CHECK_THROWS_WITH(run_ranks(3, absent), Contains("waited 0.05 s for"));
}

TEST_CASE("collective: members with tensors of different sizes", "[collective]") {
  auto disagree = [](Transport& transport) {
    Tensor x = zeros({100 + transport.rank()}, DType::f32, cpu_device());
    CollectiveRun sum(all_reduce(AllReduce::ring, transport.rank(), 2), x, {0, 1}, 1);
    finish(sum, transport, 60);
  };
  CHECK_THROWS_WITH(run_ranks(2, disagree), Contains("both must run the same plan"));
}

TEST_CASE("collective: scratch is a few pieces, charged to communication", "[collective]") {
  run_ranks(2, [](Transport& transport) {
    DevicePtr device = cpu_device();
    Tensor x = zeros({100000}, DType::f32, device);
    CollectiveRun sum(all_reduce(AllReduce::ring, transport.rank(), 2), x, {0, 1}, 1, 4096);
    finish(sum, transport, 60);
    std::int64_t peak = device->meter().peak(Category::communication);
    PG_CHECK(peak > 0 && peak <= CollectiveRun::window * 4096, "a peak of ", peak, " bytes");
  });
  DevicePtr device = cpu_device();
  Tensor x = zeros({4}, DType::f64, device);
  CHECK_THROWS_WITH(CollectiveRun(all_reduce(AllReduce::ring, 0, 1), x, {0}, 1, 4),
                    Contains("pieces of 4 bytes"));
}
