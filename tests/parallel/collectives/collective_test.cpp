// Collectives as lists: what they say, without a transport; and collectives that cannot work. The
// results on real numbers are checked by the suite (collective_suite.cpp). Chapter 04.
#include "parallel/collectives/collective.h"

#include "autograd/cpu/cpu_backend.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/carry_out.h"
#include "tests/parallel/support/promised_sum.h"

using namespace plangrad::parallel;
using plangrad::tests::promised_sum;
using enum Exchange::Action;

namespace {

/// One sum, written so that a + b and b + a, which have the same bits, are the same text.
std::string plus(const std::string& a, const std::string& b) {
  return "(" + std::min(a, b) + "+" + std::max(a, b) + ")";
}

using Chunks = std::vector<std::string>;

/// The members' chunks after a collective; member m begins with `m` in every chunk.
std::vector<Chunks> results(int members, const std::function<Collective(int member)>& list) {
  std::vector<std::vector<Piece>> lists;
  std::vector<Chunks> values;
  std::vector<std::string> carried(members);
  for (int m = 0; m < members; ++m) {
    const int chunks = list(m).chunks;
    lists.push_back(cut(list(m), chunks, 1));  // an element stands for a chunk
    values.push_back(Chunks(chunks, std::to_string(m)));
  }
  using Sent = std::pair<std::int64_t, std::string>;
  auto send = [&](int m, const Piece& x) { return Sent(x.range.begin, values[m][x.range.begin]); };
  auto take = [&](int m, const Piece& x, Sent arrived) {
    REQUIRE(arrived.first == x.range.begin);
    if (!carried[m].empty()) arrived.second = plus(carried[m], arrived.second);
    carried[m] = x.action == carry ? arrived.second : "";
    std::string& value = values[m][x.range.begin];
    if (x.action == Exchange::Action::copy) value = arrived.second;
    if (x.action == add) value = plus(value, arrived.second);
  };
  carry_out(lists, send, take);
  for (const std::string& left : carried) REQUIRE(left.empty());
  return values;
}

std::string promised(const Summing& how, int members, int chunk) {
  return promised_sum(
      how, members, chunk, [](int m) { return std::to_string(m); }, plus);
}

constexpr AllReduce both[] = {AllReduce::scatter_reduce, AllReduce::ring};

/// Values that each member sends, in units of the whole data.
std::vector<double> shares_sent(const Summing& how, int members) {
  std::vector<double> shares;
  for (int m = 0; m < members; ++m) {
    const Collective list = all_reduce(how, m, members);
    double& share = shares.emplace_back(0);
    for (const Round& round : list.rounds)
      for (const Exchange& exchange : round) share += exchange.action == send;
    share /= list.chunks;
  }
  return shares;
}

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
  CHECK(promised({AllReduce::scatter_reduce}, 3, 1) == "((0+1)+2)");
  CHECK(promised({AllReduce::ring}, 3, 1) == "((0+2)+1)");
  CHECK(promised({reductions().at("tree")}, 5, 0) == "(((0+1)+(2+3))+4)");
  CHECK(promised({reductions().at("hierarchical"), {0, 1, 0, 1}}, 4, 0) == "((0+2)+(1+3))");
  for (AllReduce how : both)
    for (int n = 1; n <= 9; ++n) {
      auto reduced = results(n, [&](int m) { return all_reduce({how}, m, n); });
      auto scattered = results(n, [&](int m) { return reduce_scatter({how}, m, n); });
      auto gathered = results(n, [&](int m) { return all_gather({how}, m, n); });
      for (int m = 0; m < n; ++m) {
        CHECK(scattered[m][m] == promised({how}, n, m));
        for (int chunk = 0; chunk < n; ++chunk) {
          CHECK(reduced[m][chunk] == promised({how}, n, chunk));
          CHECK(gathered[m][chunk] == std::to_string(chunk));
        }
      }
    }
}

TEST_CASE("collective: one round gives the bits of two, and two members send as much",
          "[collective]") {
  for (int n = 1; n <= 9; ++n)
    for (const Chunks& sum :
         results(n, [&](int m) { return all_reduce({AllReduce::direct}, m, n); }))
      CHECK(sum == Chunks{promised({AllReduce::scatter_reduce}, n, 0)});
  CHECK(shares_sent({AllReduce::direct}, 2) == shares_sent({AllReduce::scatter_reduce}, 2));
  CHECK(fitted(AllReduce::scatter_reduce, most_direct_bytes, 2) == AllReduce::direct);
  CHECK(fitted(AllReduce::scatter_reduce, most_direct_bytes + 1, 2) == AllReduce::scatter_reduce);
  CHECK(fitted(AllReduce::scatter_reduce, 4, 3) == AllReduce::scatter_reduce);
  CHECK(fitted(AllReduce::ring, 4, 2) == AllReduce::ring);
}

TEST_CASE("collective: trees and hosts make one sum for all", "[collective]") {
  const AllReduce tree = reductions().at("tree"), by_hosts = reductions().at("hierarchical");
  const std::vector<std::vector<int>> hosts{{},
                                            {0, 0},
                                            {0, 1},
                                            {0, 0, 1},
                                            {5, 2, 5, 2, 2},
                                            {0, 0, 0, 0, 1, 1, 1, 1},
                                            {0, 1, 2, 3, 4, 5, 6}};
  auto check = [](const Summing& how, int n) {
    auto reduced = results(n, [&](int m) { return all_reduce(how, m, n); });
    for (const Chunks& chunks : reduced)
      for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
        CHECK(chunks[chunk] == promised(how, n, static_cast<int>(chunk)));
  };
  for (int n = 1; n <= 9; ++n) check({tree}, n);
  for (const auto& each : hosts)
    check({by_hosts, each}, std::max(1, static_cast<int>(each.size())));
  CHECK_THROWS_WITH(reduce_scatter({tree}, 0, 2), Contains("--reduction scatter or ring"));
  CHECK_THROWS_WITH(all_reduce({by_hosts, {0, 1}}, 0, 3), Contains("group has 3"));
}

TEST_CASE("collective: every member sends 2 (N-1) chunks", "[collective]") {
  for (AllReduce how : both)
    for (int n = 1; n <= 9; ++n)
      for (int m = 0; m < n; ++m) {
        int sends = 0;
        for (const Round& round : all_reduce({how}, m, n).rounds)
          for (const Exchange& exchange : round) sends += exchange.action == send;
        CHECK(sends == 2 * (n - 1));
      }
}

// Chapter 10 begins with this sum: a bound for all members together, not for each of them.
TEST_CASE("collective: members together send 2 (N-1) times the data", "[collective]") {
  auto check = [](const Summing& how, int n) {
    double all = 0, most = 0;
    for (double share : shares_sent(how, n)) all += share, most = std::max(most, share);
    CHECK(all == Approx(2.0 * (n - 1)));
    CHECK(most >= Approx(2.0 * (n - 1) / n));
  };
  for (int n = 2; n <= 9; ++n)
    for (const auto& [name, how] : reductions()) check({how}, n);
  check({reductions().at("hierarchical"), {0, 0, 0, 0, 1, 1, 1, 1}}, 8);
  CHECK(shares_sent({reductions().at("tree")}, 8) == std::vector<double>{3, 1, 2, 1, 3, 1, 2, 1});
}

TEST_CASE("collective: members that do not exist", "[collective]") {
  CHECK_THROWS_WITH(all_reduce({AllReduce::ring}, 3, 3), Contains("member 3 of a group of 3"));
  CHECK_THROWS_WITH(all_gather({AllReduce::ring}, 0, 0), Contains("member 0 of a group of 0"));
  CHECK_THROWS_WITH(all_reduce({AllReduce::ring}, -1, 2), Contains("member -1"));
}

TEST_CASE("collective: a sum that one rank does not join ends with a report", "[collective]") {
  auto absent = [](Transport& transport) {
    if (transport.rank() == 1) return;
    Tensor x = zeros({100}, DType::f32, cpu_device());
    CollectiveRun sum(all_reduce({AllReduce::scatter_reduce}, transport.rank(), 3), x, {0, 1, 2},
                      1);
    finish(sum, transport, 0.05);
  };
  CHECK_THROWS_WITH(run_ranks(3, absent), Contains("waited 0.05 s for"));
}

TEST_CASE("collective: members with tensors of different sizes", "[collective]") {
  auto disagree = [](Transport& transport) {
    Tensor x = zeros({100 + transport.rank()}, DType::f32, cpu_device());
    CollectiveRun sum(all_reduce({AllReduce::ring}, transport.rank(), 2), x, {0, 1}, 1);
    finish(sum, transport, 60);
  };
  CHECK_THROWS_WITH(run_ranks(2, disagree), Contains("both must run the same plan"));
}

TEST_CASE("collective: scratch is a few pieces, charged to communication", "[collective]") {
  run_ranks(2, [](Transport& transport) {
    DevicePtr device = cpu_device();
    Tensor x = zeros({100000}, DType::f32, device);
    CollectiveRun sum(all_reduce({AllReduce::ring}, transport.rank(), 2), x, {0, 1}, 1, 4096);
    finish(sum, transport, 60);
    std::int64_t peak = device->meter().peak(Category::communication);
    PG_CHECK(peak > 0 && peak <= pieces_in_flight * 4096, "a peak of ", peak, " bytes");
  });
  DevicePtr device = cpu_device();
  Tensor x = zeros({4}, DType::f64, device);
  CHECK_THROWS_WITH(CollectiveRun(all_reduce({AllReduce::ring}, 0, 1), x, {0}, 1, 4),
                    Contains("pieces of 4 bytes"));
}
