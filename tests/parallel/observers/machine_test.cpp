// When ranks share cores, and what a report then says.
#include "parallel/observers/recording.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

Timeline lasting(double seconds, double busy) {
  return {1,
          {{0, Lane::compute, parse_instruction("0F0v0"), 0, busy},
           {0, Lane::message, parse_instruction("0Gwv1@0"), 0, seconds}}};
}

}  // namespace

TEST_CASE("ranks share cores if a host has more of them than cores", "[machine]") {
  const RankCores both{"a", {0, 1}};
  CHECK(!shared_cores({}));
  CHECK(!shared_cores({both, both}));
  const auto shared = shared_cores({both, both, both});
  REQUIRE(shared);
  CHECK(shared->ranks == 3);
  CHECK(shared->cores == 2);
  CHECK(!shared_cores({{"a", {0}}, {"a", {1}}, {"a", {2}}}));  // each is bound to one
  CHECK(shared_cores({{"a", {5}}, {"a", {5}}})->cores == 1);
  CHECK(!shared_cores({{"a", {0}}, {"b", {0}}}));
  CHECK(!shared_cores({{"a", {}}, {"a", {}}}));  // unknown
}

TEST_CASE("the host with the most ranks for each core is named", "[machine]") {
  std::vector<RankCores> ranks(3, {"a", {0, 1}});
  ranks.insert(ranks.end(), 2, {"b", {0}});
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(shared_cores(ranks)->ranks == 2);
    CHECK(shared_cores(ranks)->cores == 1);
    for (RankCores& rank : ranks) rank.host = rank.host == "a" ? "c" : "b";  // after b
  }
}

TEST_CASE("this thread may use some cores, each named once", "[machine]") {
  const RankCores here = cores_here();
  REQUIRE(!here.cores.empty());
  for (std::size_t i = 1; i < here.cores.size(); ++i) CHECK(here.cores[i - 1] < here.cores[i]);
}

TEST_CASE("the first line says what the measured times are times of", "[machine]") {
  const Timeline measured = lasting(2, 1.5), own = lasting(1, 0.9);
  CHECK(about_times({}, 1, measured, own).empty());
  CHECK(about_times(SharedCores{3, 1}, 1, measured, {}) ==
        "3 ranks on 1 core can be busy for at most 33.3% of the time: an update took 2 s "
        "(bubble 25.0%)");
  CHECK(about_times(SharedCores{4, 2}, 4, measured, own) ==
        "4 ranks on 2 cores can be busy for at most 50% of the time: an update took 500 ms "
        "(bubble 25.0%); with a core for each rank, 250 ms (bubble 10.0%)");
}

TEST_CASE("the machine has cores over all hosts, and the command is one that a shell takes",
          "[machine]") {
  const nlohmann::json machine = machine_json({{"a", {0, 1}}, {"a", {1, 2}}, {"b", {0}}});
  CHECK(machine["host"] == "a");
  CHECK(machine["hosts"] == 2);
  CHECK(machine["cores"] == 4);
  CHECK(machine["processor"] == processor_name());
  CHECK_THAT(command_line(), Contains("tests_parallel"));
}
