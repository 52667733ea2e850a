// Hosts: their numbers, by names and in order, and where sums by hosts would be plain ones.
// Not here: these sums (collective_test, codec_engine_test).

#include "autograd/error.h"
#include "parallel/schedules/schedule.h"
#include "parallel/session/session.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

using Hosts = std::vector<int>;

/// Two stages and two replicas on ranks 0, 1 and 2, 3; or four replicas.
Plan plan_of(const std::string& schedule) {
  const bool data = schedule == "data";
  return make_plan(schedule, {.stages = data ? 1 : 2, .width = data ? 4 : 2});
}

}  // namespace

TEST_CASE("hosts are numbered in the order of their first ranks", "[hosts]") {
  CHECK(host_numbers({"b", "a", "b", "c", "a"}) == Hosts{0, 1, 0, 2, 1});
  CHECK(host_numbers({}).empty());
}

TEST_CASE("ranks of one machine are on one host", "[hosts]") {
  run_ranks(3, [](Transport& transport) {
    PG_CHECK(hosts_of_ranks(transport, 10) == Hosts({0, 0, 0}), "several hosts");
  });
  SUCCEED("on each rank");
}

TEST_CASE("hierarchical sums that would be plain ones are refused", "[hosts]") {
  const Plan data = plan_of("data"), pipeline = plan_of("1f1b");
  CHECK_NOTHROW(check_hosts(data, {0, 0, 1, 1}));
  CHECK_NOTHROW(check_hosts(data, {0, 1, 2, 0}));
  for (const Hosts& hosts : {Hosts{0, 0, 0, 0}, Hosts{0, 1, 2, 3}})
    CHECK_THROWS_WITH(check_hosts(data, hosts), Contains("use --reduction scatter, or say with"));
  // A group of two is on one host or on two.
  for (const Hosts& hosts : {Hosts{0, 0, 1, 1}, Hosts{0, 1, 0, 1}, Hosts{0, 0, 0, 1}})
    CHECK_THROWS_WITH(check_hosts(pipeline, hosts), Contains("--reduction hierarchical: no group"));
}
